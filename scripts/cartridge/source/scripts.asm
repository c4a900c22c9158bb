; The small language of events (macros.asm). A script runs until it waits for a text box, a fight,
; a walk or a pause; de is its next byte while a word is carried out.

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
    dw word_creature, word_badge, word_item, word_rest, word_finish, word_take, word_if_item
    dw word_control, word_walk, word_pause, word_go, word_ask, word_secret, word_flip
    dw word_machine, word_cut

script_wait:                ; go on here later
    ld a, e
    ld [wScript], a
    ld a, d
    ld [wScript + 1], a
    ret

start_text_script:          ; the script at hl, once the open menu is closed
    ld a, l
    ld [wScript], a
    ld a, h
    ld [wScript + 1], a
    xor a
    ld [wMode], a
    jp close_window

word_stop:
    call end_script
    jp settle_keys

end_script:                 ; a = 0
    xor a
    ld [wScript], a
    ld [wScript + 1], a
    ld [wControl], a
    ret

word_say:
    ld h, d
    ld l, e
    call open_text
    ld d, h
    ld e, l
    jr script_wait

word_ask:                   ; the answer goes on behind the label, or at it (menu_ask.asm)
    ld h, d
    ld l, e
    call open_question
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

word_flip:
    ld a, [de]
    inc de
    push de
    call flag_place
    ld a, [hl]
    xor b
    ld [hl], a
    pop de
    jp script_next

word_if_set:
    call script_flag
    jr nz, script_jump
script_skip:
    inc de
    inc de
    jp script_next

word_if_clear:
    call script_flag
    jr nz, script_skip
script_jump:
    ld h, d
    ld l, e
    ld a, [hl+]
    ld d, [hl]
    ld e, a
    jp script_next

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

word_machine:
    call script_wait
    ld a, MENU_MACHINE
    jp open_menu
