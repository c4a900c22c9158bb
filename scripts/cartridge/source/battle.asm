; Rounds of a fight. A attacks, B tries to run. A round takes about fifteen frames.
BLINK_FRAMES   equ 4
MESSAGE_FRAMES equ 24

PHASE_MESSAGE equ 0
PHASE_MENU    equ 1
PHASE_CHOOSE  equ 2
PHASE_STRUCK  equ 3
PHASE_REPLY   equ 4
PHASE_HURT    equ 5
PHASE_NEXT    equ 6
PHASE_SWAP    equ 7
PHASE_DEFEAT  equ 8
PHASE_LEAVE   equ 9

battle_frame:
    ld hl, battle_phases
    ld a, [wPhase]
    jp jump_table

battle_phases:
    dw phase_message, phase_menu, phase_choose, phase_struck, phase_reply, phase_hurt
    dw phase_next, phase_swap, phase_defeat, phase_leave

phase_message:              ; until its time is over, or A or B
    ldh a, [hPressed]
    and KEYS_CLOSE
    jr nz, .over
    call timer
    ret nz
.over:
    ld a, [wResume]
    ld [wPhase], a
    ret

timer:                      ; z when the time is over
    ld hl, wTimer
    dec [hl]
    ret

phase_menu:
    ld hl, text_menu
    call battle_text
    ld a, PHASE_CHOOSE
    ld [wPhase], a
    ret

phase_choose:
    ldh a, [hPressed]
    bit KEY_A, a
    jr nz, strike
    bit KEY_B, a
    ret z
    ld a, [wInBattle]
    dec a
    jr nz, .refused         ; trainers do not let go
    call random
    cp 64
    jr c, .caught
    ld a, 1
    ld [wEscaped], a
    ld a, 2
    ld [wBattleResult], a
    ld a, PHASE_LEAVE
    ld hl, text_away
    jr message
.caught:
    ld hl, text_caught
    ld a, PHASE_REPLY
    jr message
.refused:
    ld hl, text_no_running
    ld a, PHASE_MENU
message:                    ; show the text at hl, then go on with phase a
    ld [wResume], a
    call battle_text
message_shown:
    ld a, MESSAGE_FRAMES
    ld [wTimer], a
    xor a
    ld [wPhase], a
    ret

strike:                     ; damage = level / 2 + 4 + (0 to 3)
    call random
    and 3
    add a, 4
    ld e, a
    ld bc, MON_LEVEL
    call my_mon
    ld a, [hl]
    srl a
    add a, e
    ld e, a
    ld hl, wFoeHp + 1
    ld a, [hl]
    sub e
    jr nc, .left
    xor a
.left:
    ld [hl], a
    call blank_foe
    ld b, PHASE_STRUCK
blink:                      ; wait, then phase b
    ld a, BLINK_FRAMES
    ld [wTimer], a
    ld a, b
    ld [wPhase], a
    ret

phase_struck:
    call timer
    ret nz
    call draw_foe
    ld a, [wFoeHp + 1]
    and a
    ld b, PHASE_REPLY
    jr nz, blink
    jp foe_down

phase_reply:                ; damage = power of the foe + (0 or 1)
    call timer
    ret nz
    call random
    and 1
    ld hl, wFoePower
    add a, [hl]
    ld e, a
    ld bc, MON_HP + 1
    call my_mon
    ld a, [hl]
    sub e
    jr nc, .left
    xor a
.left:
    ld [hl], a
    call copy_fighter
    ld a, 2
    ld [wShift], a
    call blank_mine
    ld b, PHASE_HURT
    jr blink

phase_hurt:
    call timer
    ret nz
    xor a
    ld [wShift], a
    call draw_mine
    ld bc, MON_HP + 1
    call my_mon
    ld a, [hl]
    and a
    ld a, PHASE_MENU
    jr nz, .go_on
    call first_alive
    jr z, .defeated
    ld hl, text_swap
    ld a, PHASE_SWAP
    jp message
.defeated:
    ld a, $FF
    ld [wInBattle], a
    ld a, 1
    ld [wBattleResult], a
    ld hl, text_defeat
    ld a, PHASE_DEFEAT
    jp message
.go_on:
    ld [wPhase], a
    ret

foe_down:                   ; experience: the foe's level, twice that from a trainer's
    xor a
    ld [wGrew], a
    ld a, [wFoeLevel]
    ld b, a
    ld a, [wInBattle]
    dec a
    ld a, b
    jr z, .wild
    add a, a
.wild:
    call gain_experience
    call copy_fighter
    call befriend
    call draw_mine
    call draw_box
    ld a, [wFoeKind]
    ld b, a
    ld de, wScreen + 20 * 14 + 1
    call print_kind
    ld hl, text_down
    call print
    ld a, [wGrew]
    and a
    jr z, .shown
    ld a, [wMyKind]
    ld b, a
    ld de, wScreen + 20 * 16 + 1
    call print_kind
    ld hl, text_grew
    call print
.shown:
    call show_text
    ld a, PHASE_NEXT
    ld [wResume], a
    jp message_shown

befriend:                   ; with the charm a beaten wild creature counts as owned
    ld a, [wInBattle]
    dec a
    ret nz
    ld a, GOT_CHARM
    call test_flag
    ret z
    ld a, [wFoeKind]
    ld b, a
    call kind_record
    inc hl
    ld a, [hl]
    ld hl, wOwned
    jp set_bit

phase_next:                 ; a trainer may have more; else the fight is won
    ld a, [wInBattle]
    cp 2
    jr nz, .won
    ld hl, wFoeIndex
    inc [hl]
    ld a, [wFoeCount]
    cp [hl]
    jr z, .paid
    call send_foe
    call draw_battle
    ld a, PHASE_MENU
    ld hl, text_next
    jp message
.paid:
    ld a, [wPrize]
    ld c, a
    call earn
.won:
    xor a
    ld [wBattleResult], a
phase_leave:
    xor a
    ld [wInBattle], a
    ld [wGymLeader], a
    ld hl, wStatus4
    set 5, [hl]
    ld a, 3
    ld [wStepsCalm], a
    ld [wMode], a
    jp close_window

earn:                       ; c hundreds, packed decimal
    ld hl, wMoney + 1
    ld a, [hl]
    add a, c
    daa
    ld [hl-], a
    ld a, [hl]
    adc a, 0
    daa
    ld [hl], a
    ret

phase_swap:
    call first_alive
    call choose_fighter
    ld a, [wMyKind]
    ld b, a
    call load_my_picture
    call draw_mine
    ld a, PHASE_MENU
    ld [wPhase], a
    ret

phase_defeat:               ; wake up, rested, where one last asked for a bed
    call heal_party
    call end_script
    ld [wInBattle], a
    ld [wGymLeader], a
    ld [wFacing], a
    ld hl, wStatus4
    set 5, [hl]
    ld a, [wRefuge]
    ld b, 4
    ld c, 3
    jp enter_map
