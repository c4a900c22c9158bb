; Menus: entries two rows apart, a hand that points at one of them. A chooses, B goes back, START
; closes. Whoever draws a menu says where its first entry stands and which its last one is.
ENTRY_ROWS equ 2

open_menu:                  ; menu a, at its first entry
    ld [wMenu], a
    xor a
    ld [wMenuItem], a
    ld [wListScroll], a
    call clear_screen
    ld hl, wMenuTop
    ld a, 2
    ld [hl+], a
    dec a
    ld [hl], a
    call draw_header
    ld a, [wMenu]
    ld hl, menu_pages
    call jump_table
    ld a, BOX_LIST
    ld [wTextBoxId], a
    ld a, 1
    ld [wFontLoaded], a
    ld a, MODE_MENU
    ld [wMode], a
    call show_menu
    jp full_window

menu_pages:
    dw draw_nothing, draw_start, draw_bag, draw_members, draw_moves, draw_machine, draw_box_list
menu_choices:
    dw choose_answer, choose_start, choose_thing, choose_member, choose_move, choose_service
    dw take_back
menu_ways_back:
    dw answer_no, close_window, open_start_menu, leave_members, open_members, close_window
    dw open_machine_menu

draw_header:                ; its name, and a line below
    ld a, [wMenu]
    add a, a
    ld c, a
    ld b, 0
    ld hl, menu_names
    add hl, bc
    call word_at
    ld de, wScreen + 1
    call print
    ld hl, wScreen + 20
    ld b, 20
    ld a, TILE_BOX + 1
.line:
    ld [hl+], a
    dec b
    jr nz, .line
    ret

menu_names:
    dw .ask, .start, .bag, .party, .moves, .machine, .box
.ask:     db END
.start:   db "MENU", END
.bag:     db "BAG", END
.party:   db "PARTY", END
.moves:   db "MOVES", END
.machine: db "MACHINE", END
.box:     db "STORED AWAY", END

menu_frame:
    ldh a, [hPressed]
    ld b, a
    bit KEY_A, b
    ld hl, menu_choices
    jr nz, .go
    bit KEY_B, b
    ld hl, menu_ways_back
    jr nz, .go
    bit KEY_START, b
    jr nz, leave_menu
    ld hl, wMenuItem
    bit 6, b                ; up
    jr nz, .up
    bit 7, b                ; down
    ret z
    ld a, [wMenuLast]
    cp [hl]
    ret z
    inc [hl]
    jr show_menu
.up:
    ld a, [hl]
    and a
    ret z
    dec [hl]
    jr show_menu
.go:
    ld a, [wMenu]
    jp jump_table

leave_menu:                 ; a question waits for its answer
    ld a, [wMenu]
    and a
    ret z
    jp close_window

show_menu:                  ; with the hand in its place
    call screen_settled
    call put_hand
    ld a, [wMenu]
    and a
    jp nz, show_all
    jp show_text_rows

put_hand:
    ld hl, wScreen
    ld bc, 20
    ld a, [wMenuTop]
.row:
    add hl, bc
    dec a
    jr nz, .row
    ld a, [wMenuTop + 1]
    ld c, a
    add hl, bc
    ld bc, 20 * ENTRY_ROWS
    ld a, [wMenuItem]
    ld e, a
    ld a, [wMenuLast]
    inc a
    ld d, a
.entry:
    ld a, e
    and a
    ld a, TILE_ARROW
    jr z, .put
    ld a, TILE_SPACE
.put:
    ld [hl], a
    dec e
    add hl, bc
    dec d
    jr nz, .entry
draw_nothing:
    ret
