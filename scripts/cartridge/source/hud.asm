; The status line below the world, and the status page (START).

draw_status_line:           ; row 17 of the buffer
    call screen_settled
    ld hl, wScreen + 20 * 17
    ld b, 20
    ld a, TILE_SPACE
.space:
    ld [hl+], a
    dec b
    jr nz, .space
    ld a, [wPartyCount]
    and a
    jr z, badges_row
    call leader_mon
    ld bc, MON_LEVEL
    call my_mon
    ld a, [hl]
    ld hl, wScreen + 20 * 17
    call print_level
    call my_hp
    ld hl, wScreen + 20 * 17 + 4
    call draw_bar
badges_row:                 ; three badges at the end of row 17
    ld hl, wScreen + 20 * 17 + 16
    ld a, [wBadges]
    ld b, a
draw_badges:                ; badges b at hl
    ld c, TILE_BADGE
.next:
    ld a, TILE_NOBADGE
    srl b
    jr nc, .put
    ld a, c
.put:
    ld [hl+], a
    inc c
    ld a, c
    cp TILE_NOBADGE
    jr nz, .next
    ret

leader_mon:                 ; the first creature that can fight, or the first
    call first_alive
    jr nz, .found
    xor a
.found:
    jp choose_fighter

open_status:
    call clear_screen
    ld hl, status_text
    call print_lines
    ld de, wMoney
    ld hl, wScreen + 20 * 5 + 9
    ld c, 3
    call print_decimal
    ld hl, wScreen + 20 * 7 + 9
    ld a, [wBadges]
    ld b, a
    call draw_badges
    ld hl, wScreen + 20 * 9 + 9
    ld a, [wHours]
    call print_two
    ld [hl], $9C            ; colon
    inc hl
    ld a, [wMinutes]
    call print_two
    ld de, wScreen + 20 * 12 + 1
    call draw_party
    call show_all
    ld a, MODE_STATUS
    ld [wMode], a
    ld a, 1
    ld [wTextBoxId], a
    ld [wFontLoaded], a
    jp full_window

draw_party:                 ; a line each from de: name, level, bar
    ld a, [wPartyCount]
    and a
    ret z
    ld b, a
    ld c, 0
.next:
    push bc
    push de
    ld a, c
    call choose_fighter
    pop de
    push de
    ld a, [wMyKind]
    ld b, a
    call print_kind
    pop de
    push de
    ld bc, MON_LEVEL
    call my_mon
    ld a, [hl]
    ld hl, 8
    add hl, de
    call print_level
    inc hl
    push hl
    call my_hp
    pop hl
    call draw_bar
    pop hl
    ld de, 40
    add hl, de
    ld d, h
    ld e, l
    pop bc
    inc c
    dec b
    jr nz, .next
    ret

status_frame:               ; any button closes it
    ldh a, [hPressed]
    and a
    ret z
    jp close_window

status_text:
    dw wScreen + 20 * 1 + 3
    db "BELL RINGER", END
    dw wScreen + 20 * 3 + 1
    db "NAME    ROBIN", END
    dw wScreen + 20 * 5 + 1
    db "MONEY", END
    dw wScreen + 20 * 7 + 1
    db "BELLS", END
    dw wScreen + 20 * 9 + 1
    db "TIME", END
    dw 0
