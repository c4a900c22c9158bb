; Dialogue: a box over the lower third until A or B.

open_text:                  ; text at hl; then hl behind it
    push hl
    call screen_settled
    call draw_box
    pop hl
    ld de, wScreen + 20 * 14 + 1
    call print
    push hl
    call show_text_rows
    ld a, TEXT_LINE
    ldh [hWindowY], a
    ld [wSpriteLimit], a
    ld a, MODE_TEXT
    ld [wMode], a
    ld a, BOX_MESSAGE
    ld [wTextBoxId], a
    ld [wFontLoaded], a
    ld a, [wControl]
    and a
    jr z, .open
    ld a, KEYS_NO_BOX
    ld [wJoyIgnore], a
.open:
    pop hl
    ret

show_text_rows:
    ld de, wScreen + 20 * 12
    ld hl, WINDOW_MAP
    ld a, 6
    jp show_rows

text_frame:
    ldh a, [hPressed]
    and KEYS_CLOSE
    ret z
box_closed:
    xor a
    ld [wMode], a
    call settle_keys
    call run_script         ; may say more, or start a fight
    ld a, [wMode]
    and a
    ret nz
    jp close_window

settle_keys:                ; what is ignored outside text boxes
    ld a, [wControl]
    and a
    ld a, KEYS_ALL
    jr nz, .put
    ld a, [wMapKeys]
.put:
    ld [wJoyIgnore], a
    ret
