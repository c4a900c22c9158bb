; START: the status page; and once there is something in the bag that menus are needed for, these.

open_start:
    ld a, GOT_CUT
    call test_flag
    jp z, open_status
open_start_menu:
    ld a, MENU_START
    jp open_menu

draw_start:
    ld a, 3
    ld [wMenuLast], a
    ld hl, start_text
    jp print_lines

start_text:
    dw wScreen + 20 * 2 + 3
    db "PARTY", END
    dw wScreen + 20 * 4 + 3
    db "BAG", END
    dw wScreen + 20 * 6 + 3
    db "STATUS", END
    dw wScreen + 20 * 8 + 3
    db "CLOSE", END
    dw 0

choose_start:
    ld hl, start_entries
    ld a, [wMenuItem]
    jp jump_table

start_entries:
    dw open_party_menu, open_bag_menu, open_status, close_window
