; The bag: names of things, and what using one of them does.
BAG_ROWS equ 8              ; as many as the game has things

open_bag_menu:
    ld a, MENU_BAG
    jp open_menu

draw_bag:
    ld a, [wBagCount]
    cp BAG_ROWS
    jr c, .room
    ld a, BAG_ROWS
.room:
    ld b, a
    dec a
    ld [wMenuLast], a
    ld hl, wBag
    ld de, wScreen + 20 * 2 + 3
.next:
    ld a, [hl+]
    inc hl
    push hl
    push bc
    push de
    call thing_name
    pop de
    push de
    call print
    pop hl
    ld de, 20 * ENTRY_ROWS
    add hl, de
    ld d, h
    ld e, l
    pop bc
    pop hl
    dec b
    jr nz, .next
    ret

thing_name:                 ; hl = name of thing a
    ld b, a
    ld hl, thing_names
.next:
    ld a, [hl+]
    and a
    jp z, word_at
    cp b
    jp z, word_at
    inc hl
    inc hl
    jr .next

choose_thing:
    ld a, [wMenuItem]
    ld [wBagCursor], a
    add a, a
    ld c, a
    ld b, 0
    ld hl, wBag
    add hl, bc
    ld a, [hl]
    cp CUT_BOOK
    jr z, teach
    cp TONIC
    ld hl, drink_tonic
    jp z, start_text_script
    ld hl, no_use
    jp start_text_script
teach:
    ld a, TO_TEACH
    jp open_members_for

drink_tonic:
    take_item TONIC
    heal_party
    say "WARM AND BITTER.", "ALL FEEL BETTER!"
    stop
no_use:
    say "THAT IS OF NO USE", "HERE AND NOW."
    stop

macro named             ; thing, its name
    db \1
    dw \2
endm
thing_names:
    named ALMANAC, .almanac
    named TONIC, .tonic
    named PASS, .pass
    named SHELL, .shell
    named STONE, .stone
    named KEY, .key
    named LAMP, .lamp
    named CUT_BOOK, .book
    named 0, .other
.almanac: db "ALMANAC", END
.tonic:   db "TONIC", END
.pass:    db "PASS", END
.shell:   db "OLD SHELL", END
.stone:   db "WHETSTONE", END
.key:     db "TOWER KEY", END
.lamp:    db "LAMP", END
.book:    db "BOOK OF CUT", END
.other:   db "SOMETHING", END
