; The machine in rest houses: friends are stored away and taken back. Only the last one must stay.

machine:
    open_machine
    stop

open_machine_menu:
    ld a, MENU_MACHINE
    jp open_menu

draw_machine:
    ld a, 2
    ld [wMenuLast], a
    ld hl, machine_text
    jp print_lines

machine_text:
    dw wScreen + 20 * 2 + 3
    db "STORE A FRIEND", END
    dw wScreen + 20 * 4 + 3
    db "TAKE ONE BACK", END
    dw wScreen + 20 * 6 + 3
    db "LEAVE", END
    dw 0

choose_service:
    ld hl, machine_services
    ld a, [wMenuItem]
    jp jump_table

machine_services:
    dw choose_whom_to_store, open_box_menu, close_window

choose_whom_to_store:
    ld a, [wPartyCount]
    and a
    ld hl, nobody_here
    jp z, start_text_script
    ld a, TO_STORE
    jp open_members_for

open_box_menu:
    ld a, [wBoxCount]
    and a
    ld hl, box_is_empty
    jp z, start_text_script
    ld a, MENU_BOX
    jp open_menu

draw_box_list:              ; names only
    ld a, [wBoxCount]
    ld b, a
    dec a
    ld [wMenuLast], a
    ld hl, wBoxKinds
    ld de, wScreen + 20 * 2 + 3
.next:
    push bc
    ld a, [hl+]
    push hl
    push de
    ld b, a
    call print_kind
    pop hl
    ld de, 20 * ENTRY_ROWS
    add hl, de
    ld d, h
    ld e, l
    pop hl
    pop bc
    dec b
    jr nz, .next
    ret

nobody_here:
    say "NOBODY IS WITH YOU", "TO BE STORED."
    stop
box_is_empty:
    say "THE MACHINE HUMS.", "IT IS EMPTY."
    stop
last_one_stays:
    say "SOMEBODY HAS TO", "STAY WITH YOU!"
    stop
stored:
    say "A FLASH AND A HUM:", "STORED AWAY."
    stop
taken_back:
    say "A FLASH AND A HUM:", "WELCOME BACK!"
    stop
party_is_full:
    say "SIX ARE ENOUGH TO", "TRAVEL WITH."
    stop
