; The box of the machine: the first 33 bytes of a party record each, as in the real game. Stats and
; level are worked out again when one is taken back.

store_member:               ; the chosen one
    ld a, [wPartyCount]
    cp 2
    ld hl, last_one_stays
    jp c, start_text_script
    call copy_to_box
    call leave_party
    ld hl, stored
    jp start_text_script

copy_to_box:                ; to its end; there are fewer creatures in the game than places
    ld a, [wChosenSlot]
    call mon_address
    ld d, h
    ld e, l
    ld a, [wBoxCount]
    call box_address
    ld a, [de]              ; species
    ld c, a
    push bc
    call swap_de_hl
    ld b, BOX_MON_SIZE
    call copy_short
    pop bc
    ld a, [wBoxCount]
    ld e, a
    ld d, 0
    ld hl, wBoxSpecies
    add hl, de
    ld [hl], c
    inc hl
    ld [hl], $FF
    ld a, [wChosenSlot]
    ld c, a
    ld b, 0
    ld hl, wKinds
    add hl, bc
    ld a, [hl]
    ld hl, wBoxKinds
    add hl, de
    ld [hl], a
    ld hl, wNeeds
    add hl, bc
    ld a, [hl]
    ld hl, wBoxNeeds
    add hl, de
    ld [hl], a
    ld hl, wBoxCount
    inc [hl]
    ret

leave_party:                ; the chosen one; those behind it move up
    ld hl, wPartyCount
    ld a, [hl]
    dec [hl]
    ld [wLength], a
    ld hl, wParty
    ld c, MON_SIZE
    call close_gap
    ld hl, wKinds
    ld c, 1
    call close_gap
    ld hl, wNeeds
    ld c, 1
    call close_gap
    ld hl, wLength          ; the list of species has an end mark
    inc [hl]
    ld hl, wSpecies
    ld c, 1
    jp close_gap

take_back:                  ; the one pointed at joins the party's end
    ld a, [wPartyCount]
    cp 6
    ld hl, party_is_full
    jp nc, start_text_script
    ld a, [wMenuItem]
    ld [wChosenSlot], a
    call copy_to_party
    call leave_box
    ld hl, taken_back
    jp start_text_script

copy_to_party:
    ld a, [wChosenSlot]
    ld c, a
    ld b, 0
    ld hl, wBoxNeeds
    add hl, bc
    ld d, [hl]
    ld hl, wBoxKinds
    add hl, bc
    ld b, [hl]
    ld a, [wChosenSlot]
    call box_level
    push de
    call add_creature       ; as if it were given: record, lists, count
    pop de
    ld a, [wPartyCount]
    dec a
    ld c, a
    ld b, 0
    ld hl, wNeeds
    add hl, bc
    ld [hl], d
    call mon_address
    push hl
    ld a, [wChosenSlot]
    call box_address
    pop de
    ld b, BOX_MON_SIZE      ; HP, moves and experience are its own again
    jp copy_short

leave_box:
    ld hl, wBoxCount
    ld a, [hl]
    dec [hl]
    ld [wLength], a
    ld hl, wBoxMons
    ld c, BOX_MON_SIZE
    call close_gap
    ld hl, wBoxKinds
    ld c, 1
    call close_gap
    ld hl, wBoxNeeds
    ld c, 1
    call close_gap
    ld hl, wLength
    inc [hl]
    ld hl, wBoxSpecies
    ld c, 1

close_gap:                  ; of wLength records of c bytes at hl the chosen one is taken out
    ld b, 0
    ld a, [wChosenSlot]
    and a
    jr z, .found
.record:
    add hl, bc
    dec a
    jr nz, .record
.found:
    ld d, h
    ld e, l
    add hl, bc              ; from the next record to the chosen one
    ld a, [wChosenSlot]
    inc a
    ld b, a
    ld a, [wLength]
    sub b
    ret z
.next:
    push af
    ld b, c
    call copy_short
    pop af
    dec a
    jr nz, .next
    ret

box_address:                ; hl = place a of the box
    ld hl, wBoxMons
    ld bc, BOX_MON_SIZE
    and a
    ret z
.next:
    add hl, bc
    dec a
    jr nz, .next
    ret

box_level:                  ; c = level of place a; keeps b, d
    push bc
    call box_address
    pop bc
    inc hl
    inc hl
    inc hl                  ; MON_BOXLEVEL
    ld c, [hl]
    ret

swap_de_hl:
    push de
    push hl
    pop de
    pop hl
    ret
