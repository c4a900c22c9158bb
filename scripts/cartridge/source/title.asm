; Title screen and new game. The title goes away by itself after a while.
TITLE_FRAMES equ 60

open_title:
    call clear_screen
    ld hl, title_text
    call print_lines
    ld a, MODE_TITLE
    ld [wMode], a
    ld a, $FF
    ld [wJoyIgnore], a
    ld a, TITLE_FRAMES
    ld [wTimer], a
    ld b, LUMPKIN
    call load_my_picture
    ld hl, wScreen + 20 * 10 + 8
    ld a, TILE_MINE
    call draw_picture
    call show_all
    jp full_window

title_text:
    dw wScreen + 20 * 1
    db "##   #  ##  ##  # #", END
    dw wScreen + 20 * 2
    db "# # # # # # # # # #", END
    dw wScreen + 20 * 3
    db "# # ### # # # #  #", END
    dw wScreen + 20 * 4
    db "# # # # # # # #  #", END
    dw wScreen + 20 * 5
    db "##  # # ##  ##   #", END
    dw wScreen + 20 * 8 + 1
    db "THE ISLE OF BELLS", END
    dw wScreen + 20 * 16 + 4
    db "PRESS START", END
    dw wScreen + 20 * 12 + 2
    db TILE_BADGE, "  ", TILE_BADGE + 1, END
    dw wScreen + 20 * 12 + 14
    db TILE_BADGE + 2, "  ", TILE_BADGE, END
    dw 0

title_frame:
    ld hl, wTimer
    dec [hl]
    jr z, new_game
    ldh a, [hRaw]           ; the only screen that looks at buttons which are ignored
    and %00001011
    ret z
new_game:
    ld hl, player_name
    ld de, wPlayerName
    ld bc, 6
    call copy
    ld a, $FF
    ld [wSpecies], a
    ld [wBoxSpecies], a
    ld [wBag], a
    ld a, $30
    ld [wMoney + 1], a      ; 3000
    ld a, 1
    ld [wOptions], a
    ld a, HOME_MAP
    ld [wRefuge], a
    ld hl, wStatus6
    set 0, [hl]
    xor a
    ld [wFacing], a
    ld a, START_MAP
    ld b, START_Y
    ld c, START_X
    jp enter_map

player_name:
    db "ROBIN", END
