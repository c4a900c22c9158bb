; The small language of events (macros.asm). A script runs until it waits for a text box or a
; fight; de is its next byte while a word is carried out.

run_script:
    ld a, [wScript]
    ld e, a
    ld a, [wScript + 1]
    ld d, a
    and a
    ret z
script_next:
    ld a, [de]
    inc de
    ld hl, script_words
    jp jump_table

script_words:
    dw word_stop, word_say, word_set, word_if_set, word_if_clear, word_fight, word_heal
    dw word_creature, word_badge, word_item, word_rest, word_finish

script_wait:                ; go on here later
    ld a, e
    ld [wScript], a
    ld a, d
    ld [wScript + 1], a
    ret

word_stop:
    xor a
    ld [wScript], a
    ld [wScript + 1], a
    ret

word_say:
    ld h, d
    ld l, e
    call open_text
    ld d, h
    ld e, l
    jr script_wait

word_set:
    ld a, [de]
    inc de
    push de
    call raise_flag
    pop de
    jr script_next

word_if_set:
    call script_flag
    jr nz, script_jump
script_skip:
    inc de
    inc de
    jr script_next

word_if_clear:
    call script_flag
    jr nz, script_skip
script_jump:
    ld h, d
    ld l, e
    ld a, [hl+]
    ld d, [hl]
    ld e, a
    jr script_next

script_flag:                ; nz when the flag named next is set
    ld a, [de]
    inc de
    push de
    call test_flag
    pop de
    ret

word_fight:
    ld a, [wPartyCount]     ; nobody to fight with: the script ends
    and a
    jr z, word_stop
    ld a, [de]
    inc de
    ld b, a
    call script_wait
    ld a, b
    jp start_trainer

word_heal:
    push de
    call heal_party
    pop de
    jr script_next

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

word_rest:
    ld a, [wMap]
    ld [wRefuge], a
    ld hl, wStatus4
    set 2, [hl]
    jp script_next

word_finish:
    call word_stop
    jp open_ending
