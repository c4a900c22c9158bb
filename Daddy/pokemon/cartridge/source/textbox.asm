; Dialogue: a box over the lower third until A or B.

open_text:                  ; text at hl; then hl behind it
    push hl
    call screen_settled
    call draw_box
    pop hl
    ld de, wScreen + 20 * 14 + 1
    call print
    push hl
    ld de, wScreen + 20 * 12
    ld hl, WINDOW_MAP
    ld a, 6
    call show_rows
    ld a, TEXT_LINE
    ldh [hWindowY], a
    ld [wSpriteLimit], a
    ld a, MODE_TEXT
    ld [wMode], a
    ld a, 1
    ld [wTextBoxId], a
    ld [wFontLoaded], a
    pop hl
    ret

text_frame:
    ldh a, [hPressed]
    and KEYS_CLOSE
    ret z
    xor a
    ld [wMode], a
    call run_script         ; may say more, or start a fight
    ld a, [wMode]
    and a
    ret nz
    jp close_window
