; Script words that give and take.

word_creature:
    ld a, [de]
    inc de
    ld b, a
    ld a, [de]
    inc de
    ld c, a
    push de
    call add_creature
    pop de
    jp script_next

word_badge:
    ld a, [de]
    inc de
    ld b, a
    ld hl, wBadges
    ld a, [hl]
    or b
    ld [hl], a
    ld hl, wBeatGym
    ld a, [hl]
    or b
    ld [hl], a
    jp script_next

word_item:                  ; one more pair (thing, 1) in the bag
    ld a, [wBagCount]
    ld c, a
    ld b, 0
    inc a
    ld [wBagCount], a
    ld hl, wBag
    add hl, bc
    add hl, bc
    ld a, [de]
    inc de
    ld [hl+], a
    ld a, 1
    ld [hl+], a
    ld [hl], $FF
    jp script_next

word_take:                  ; the pair leaves, those behind it move up
    ld a, [de]
    inc de
    push de
    call find_item
    jr nc, .none
    ld d, h
    ld e, l
    inc hl
    inc hl
.next:
    ld a, [hl+]
    ld [de], a
    inc de
    inc a
    jr nz, .next
    ld hl, wBagCount
    dec [hl]
.none:
    pop de
    jp script_next

word_if_item:
    ld a, [de]
    inc de
    push de
    call find_item
    pop de
    jp c, script_jump
    jp script_skip

find_item:                  ; carry and hl = its pair when thing a is in the bag
    ld b, a
    ld a, [wBagCount]
    ld c, a
    ld hl, wBag
    and a
    ret z
.next:
    ld a, [hl]
    cp b
    scf
    ret z
    inc hl
    inc hl
    dec c
    jr nz, .next
    and a
    ret
