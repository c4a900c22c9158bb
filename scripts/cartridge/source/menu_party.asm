; The party as a menu: somebody is chosen to use a move, to be taught one, or to be stored away.

open_party_menu:
    xor a                   ; TO_USE
open_members_for:
    ld [wPurpose], a
open_members:
    ld a, MENU_PARTY
    jp open_menu

draw_members:
    ld a, [wPartyCount]
    dec a
    ld [wMenuLast], a
    xor a
    ld [wMenuTop + 1], a    ; a line fills the screen
    ld de, wScreen + 20 * 2 + 1
    jp draw_party

leave_members:
    ld a, [wPurpose]
    cp TO_STORE
    jp z, open_machine_menu
    jp open_start_menu

choose_member:
    ld a, [wMenuItem]
    ld [wChosenSlot], a
    ld hl, member_purposes
    ld a, [wPurpose]
    jp jump_table

member_purposes:
    dw open_moves, learn_cut, store_member

open_moves:
    ld a, MENU_MOVES
    jp open_menu

draw_moves:                 ; the moves that open ways, then the way back
    call knows_cut
    ld hl, moves_text
    ld a, 1
    jr z, .known
    ld hl, no_moves_text
    xor a
.known:
    ld [wMenuLast], a
    jp print_lines

moves_text:
    dw wScreen + 20 * 2 + 3
    db "CUT", END
    dw wScreen + 20 * 4 + 3
    db "BACK", END
    dw 0
no_moves_text:
    dw wScreen + 20 * 2 + 3
    db "BACK", END
    dw 0

choose_move:
    ld a, [wMenuItem]
    ld hl, wMenuLast
    cp [hl]
    jp z, open_members
    jp use_cut

knows_cut:                  ; z when the chosen one knows it; else hl = the first empty place
    ld a, [wChosenSlot]
    call mon_address
    ld bc, MON_MOVES
    add hl, bc
.next:
    ld a, [hl]
    cp CUT
    ret z
    inc hl
    and a
    jr nz, .next
    dec hl
    inc a                   ; nz
    ret
