; The last screen. It counts as a team in the hall; then one wakes up at home and may go on.

open_ending:
    ld hl, wHallTeams
    inc [hl]
    call clear_screen
    ld b, OLDWYRM
    call load_my_picture
    ld hl, wScreen + 20 * 7 + 8
    ld a, TILE_MINE
    call draw_picture
    ld hl, ending_text
    call print_lines
    ld a, MODE_ENDING
    ld [wMode], a
    ld a, 1
    ld [wTextBoxId], a
    call show_all
    jp full_window

ending_frame:
    ldh a, [hPressed]
    and KEYS_CLOSE
    ret z
    call heal_party
    xor a
    ld [wFacing], a
    ld a, HOME_MAP
    ld b, 4
    ld c, 3
    jp enter_map

ending_text:
    dw wScreen + 20 * 2 + 3
    db "ALL THE BELLS", END
    dw wScreen + 20 * 4 + 3
    db "RING FOR YOU!", END
    dw wScreen + 20 * 14 + 6
    db "THE END", END
    dw wScreen + 20 * 9 + 3
    db TILE_BADGE, END
    dw wScreen + 20 * 9 + 16
    db TILE_BADGE + 1, END
    dw wScreen + 20 * 12 + 9
    db TILE_BADGE + 2, END
    dw 0
