; A question: a text box with yes and no beside its words.
ASK_ROW    equ 14
ASK_COLUMN equ 15

open_question:              ; text at hl; then hl behind it
    call open_text
    push hl
    ld a, BOX_QUESTION      ; at once: who presses A for the player looks at this
    ld [wTextBoxId], a
    xor a                   ; yes comes first; this menu is number 0
    ld [wMenu], a
    ld [wMenuItem], a
    inc a
    ld [wMenuLast], a
    ld hl, wMenuTop
    ld a, ASK_ROW
    ld [hl+], a
    ld [hl], ASK_COLUMN
    call screen_settled
    ld hl, ask_text
    call print_lines
    call show_menu
    ld a, MODE_MENU
    ld [wMode], a
    pop hl
    ret

ask_text:
    dw wScreen + 20 * ASK_ROW + ASK_COLUMN + 1
    db "YES", END
    dw wScreen + 20 * (ASK_ROW + 2) + ASK_COLUMN + 1
    db "NO", END
    dw 0

choose_answer:
    ld a, [wMenuItem]
    and a
    jr nz, answer_no
    ld hl, wScript          ; yes: behind the label
    ld a, [hl]
    add a, 2
    ld [hl+], a
    jp nc, box_closed
    inc [hl]
    jp box_closed

answer_no:                  ; at the label
    ld a, [wScript]
    ld l, a
    ld a, [wScript + 1]
    ld h, a
    ld a, [hl+]
    ld [wScript], a
    ld a, [hl]
    ld [wScript + 1], a
    jp box_closed
