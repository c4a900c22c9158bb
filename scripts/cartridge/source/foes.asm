; Who stands opposite.

start_wild:                 ; one of the two creatures of this map
    call random
    ld c, a
    ld hl, wGrass
    ld b, [hl]
    inc hl
    bit 6, c
    jr z, .first
    ld b, [hl]
.first:
    inc hl
    ld a, [hl+]
    ld d, a
    ld a, [hl]
    and c
    add a, d
    ld c, a
    ld a, 1
    ld [wInBattle], a
    call set_foe
    ld a, [wFoeSpecies]
    ld [wOpponent], a
    ld hl, text_wild
    jr open_battle

start_trainer:              ; trainer a
    add a, a
    ld c, a
    ld b, 0
    ld hl, trainers
    add hl, bc
    ld a, [hl+]
    ld h, [hl]
    ld l, a
    ld a, [hl+]
    ld [wTrainerClass], a
    add a, 200
    ld [wOpponent], a
    ld a, [hl+]
    ld [wGymLeader], a
    ld a, [hl+]
    ld [wPrize], a
    ld a, [hl+]
    ld [wFoeCount], a
    ld a, l
    ld [wFoeList], a
    ld a, h
    ld [wFoeList + 1], a
    call note_foes
    xor a
    ld [wFoeIndex], a
    ld a, 2
    ld [wInBattle], a
    call send_foe
    ld hl, text_trainer

open_battle:                ; the foe is set; text at hl
    push hl
    call first_alive
    call choose_fighter
    ld a, MODE_BATTLE
    ld [wMode], a
    xor a
    ld [wGrew], a
    ld [wEscaped], a
    ld [wSpriteLimit], a
    call flash
    ld a, [wMyKind]
    ld b, a
    call load_my_picture
    call draw_battle
    ld a, [wFoeKind]
    ld b, a
    ld de, wScreen + 20 * 14 + 1
    call print_kind
    pop hl
    call print
    call show_text
    ld a, PHASE_MENU
    ld [wResume], a
    call message_shown
    jp full_window

flash:
    ld a, %00011011
    ldh [hPalette], a
    ld a, 3
    call wait_frames
    ld a, %11100100
    ldh [hPalette], a
    ret

note_foes:                  ; the trainer's party where the real game has it
    ld a, [wFoeCount]
    ld b, a
    ld de, wFoeMons
.next:
    push bc
    ld a, [hl+]
    ld b, a
    push hl
    call kind_record
    ld a, [hl]
    ld [de], a
    pop hl
    ld a, [hl+]
    push hl
    ld hl, MON_LEVEL
    add hl, de
    ld [hl], a
    ld bc, MON_SIZE - MON_LEVEL
    add hl, bc
    ld d, h
    ld e, l
    pop hl
    pop bc
    dec b
    jr nz, .next
    ret

send_foe:                   ; the trainer's creature number wFoeIndex
    ld a, [wFoeIndex]
    add a, a
    ld c, a
    ld b, 0
    ld a, [wFoeList]
    ld l, a
    ld a, [wFoeList + 1]
    ld h, a
    add hl, bc
    ld a, [hl+]
    ld b, a
    ld c, [hl]

set_foe:                    ; creature b at level c: HP 10 + 2 * level
    ld a, b
    ld [wFoeKind], a
    ld a, c
    ld [wFoeLevel], a
    add a, a
    add a, 10
    ld [wFoeHp + 1], a
    ld [wFoeMaxHp + 1], a
    xor a
    ld [wFoeHp], a
    ld [wFoeMaxHp], a
    call set_power
    call kind_record
    ld a, [hl+]
    ld [wFoeSpecies], a
    ld a, [hl]
    ld hl, wSeen
    push bc
    call set_bit
    pop bc
    jp load_foe_picture

set_power:                  ; wild: level / 4 + 1; a trainer's: level / 3 + 1
    ld a, [wInBattle]
    ld e, 4
    dec a
    jr z, .divide
    dec e
.divide:
    ld d, 0
    ld a, c
.again:
    inc d
    sub e
    jr nc, .again
    ld a, d
    ld [wFoePower], a
    ret

text_wild:
    db " APPEARS!", END
text_trainer:
    db " STEPS UP!", END
