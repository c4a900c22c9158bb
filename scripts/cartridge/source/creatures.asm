; The party: joining, experience, levels, healing. Levels stay below 100, so HP fits in a byte
; (10 + 2 * level); the records keep the real game's shape, two bytes with the high one first.
KIND_RECORD equ 6           ; species, dex bit, name, picture

kind_record:                ; hl = record of creature b
    ld a, b
    add a, a
    add a, b
    add a, a
    ld hl, kinds
    add a, l
    ld l, a
    ret nc
    inc h
    ret

kind_name:                  ; hl = name of creature b
    call kind_record
    inc hl
    inc hl
    ld a, [hl+]
    ld h, [hl]
    ld l, a
    ret

mon_address:                ; hl = record of party slot a
    ld hl, wParty
    ld bc, MON_SIZE
    and a
    ret z
.next:
    add hl, bc
    dec a
    jr nz, .next
    ret

add_creature:               ; creature b at level c, if there is room
    ld a, [wPartyCount]
    cp 6
    ret nc
    push bc
    call mon_address
    pop bc
    push hl
    call fill_mon
    ld a, [wPartyCount]
    ld e, a
    ld d, 0
    ld hl, wKinds
    add hl, de
    ld [hl], b
    ld hl, wNeeds
    add hl, de
    ld a, c
    add a, a
    ld [hl], a
    push bc
    call kind_record
    ld a, [hl+]
    ld b, [hl]              ; dex bit
    ld hl, wSpecies
    add hl, de
    ld [hl+], a
    ld [hl], $FF
    pop de                  ; (creature, level) leave the stack
    pop hl
    ld [hl], a
    ld hl, wPartyCount
    inc [hl]
    ld a, b
    push af
    ld hl, wOwned
    call set_bit
    pop af
    ld hl, wSeen
    jp set_bit

fill_mon:                   ; record at hl for level c; the species byte comes later
    push bc
    ld d, h
    ld e, l
    ld b, MON_LEVEL
    xor a
.clear:
    ld [hl+], a
    dec b
    jr nz, .clear
    ld [hl], c              ; level
    inc hl
    ld a, c
    add a, a
    add a, 10
    ld b, a                 ; HP
    xor a
    ld [hl+], a
    ld [hl], b
    inc hl
    ld a, c
    add a, 6
    ld c, 4
.stat:
    ld [hl], 0
    inc hl
    ld [hl+], a
    dec c
    jr nz, .stat
    ld hl, MON_HP + 1
    add hl, de
    ld [hl], b
    inc hl
    sub 6
    ld [hl], a              ; level once more, as the box keeps it
    ld hl, MON_MOVES
    add hl, de
    ld [hl], TACKLE
    ld hl, MON_PP
    add hl, de
    ld [hl], 35
    pop bc
    ret

heal_party:
    ld a, [wPartyCount]
    and a
    ret z
    ld c, a
    ld hl, wParty + MON_HP + 1
.next:
    ld de, MON_MAXHP - MON_HP
    push hl
    add hl, de
    ld a, [hl]
    pop hl
    ld [hl], a
    ld de, MON_SIZE
    add hl, de
    dec c
    jr nz, .next
    ret

my_mon:                     ; hl = fighting creature's record + bc
    ld a, [wMySlot]
    ld l, a
    ld a, [wMySlot + 1]
    ld h, a
    add hl, bc
    ret

gain_experience:            ; a points for the fighting creature; wGrew says whether it grew
    ld d, a
    ld bc, MON_EXP + 2
    call my_mon
    ld a, [hl]
    add a, d
    ld [hl-], a
    jr nc, .added
    inc [hl]
.added:
    ld a, [wActiveSlot]
    ld c, a
    ld b, 0
    ld hl, wNeeds
    add hl, bc
.level:
    ld a, [hl]
    sub d
    jr c, .grow
    jr z, .grow
    ld [hl], a
    ret
.grow:
    cpl                     ; what is left over
    inc a
    ld d, a
    push hl
    push de
    call level_up
    pop de
    pop hl
    add a, a
    ld [hl], a
    ld a, d
    and a
    jr nz, .level
    ret

level_up:                   ; a = the level afterwards
    ld bc, MON_LEVEL
    call my_mon
    ld a, [hl]
    cp 99
    ret nc
    inc [hl]
    inc hl
    inc hl
    inc [hl]                ; max HP
    inc [hl]
    ld d, 4
.stat:
    inc hl
    inc hl
    inc [hl]
    dec d
    jr nz, .stat
    ld bc, MON_HP + 1
    call my_mon
    inc [hl]
    inc [hl]
    inc hl
    inc [hl]                ; MON_BOXLEVEL
    ld a, 1
    ld [wGrew], a
    ld bc, MON_LEVEL
    call my_mon
    ld a, [hl]
    ret

first_alive:                ; z clear and a = first slot with HP; z set when there is none
    ld a, [wPartyCount]
    and a
    ret z
    ld c, a
    ld b, 0
    ld hl, wParty + MON_HP + 1
    ld de, MON_SIZE
.next:
    ld a, [hl]
    and a
    jr nz, .alive
    add hl, de
    inc b
    dec c
    jr nz, .next
    xor a
    ret
.alive:
    ld a, b
    ret

choose_fighter:             ; slot a steps forward
    ld [wActiveSlot], a
    ld c, a
    ld b, 0
    ld hl, wKinds
    add hl, bc
    ld a, [hl]
    ld [wMyKind], a
    ld a, c
    call mon_address
    ld a, l
    ld [wMySlot], a
    ld a, h
    ld [wMySlot + 1], a
copy_fighter:               ; also where the real game keeps the creature that fights
    ld bc, 0
    call my_mon
    ld de, wBattleMon
    ld b, 3
    call copy_short
    ld bc, MON_LEVEL
    call my_mon
    ld a, [hl]
    ld [wBattleMon + 14], a
    ret
