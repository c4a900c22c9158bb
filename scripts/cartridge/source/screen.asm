; The 20x18 screen buffer and its way into the window.

show_all:                   ; the whole buffer, full screen
    ld de, wScreen
    ld hl, WINDOW_MAP
    ld a, 18
show_rows:                  ; a rows from de (buffer) to hl (window), by the next blanks
    push af
    call screen_settled
    ld a, e
    ld [wRowsFrom], a
    ld a, d
    ld [wRowsFrom + 1], a
    ld a, l
    ld [wRowsTo], a
    ld a, h
    ld [wRowsTo + 1], a
    pop af
    ld [wRowsLeft], a
    ret

screen_settled:             ; wait until no row is on its way
    ldh a, [LCDC]
    bit 7, a
    ret z
.wait:
    ld a, [wRowsLeft]
    and a
    ret z
    call wait_frame
    jr .wait

clear_screen:
    call screen_settled
    ld hl, wScreen
    ld bc, 360
.space:
    ld a, TILE_SPACE
    ld [hl+], a
    dec bc
    ld a, b
    or c
    jr nz, .space
    ret

full_window:                ; once the rows are there, the window covers the screen
    call screen_settled
    xor a
    ldh [hWindowY], a
    ld [wSpriteLimit], a
    ret

draw_box:                   ; frame of the text box, rows 12 to 17
    ld hl, wScreen + 20 * 12
    ld bc, (TILE_BOX * 256) + TILE_BOX + 1
    ld d, TILE_BOX + 2
    call .line
    ld e, 4
.middle:
    ld bc, ((TILE_BOX + 3) * 256) + TILE_SPACE
    ld d, TILE_BOX_RIGHT
    call .line
    dec e
    jr nz, .middle
    ld bc, ((TILE_BOX + 4) * 256) + TILE_BOX + 6
    ld d, TILE_BOX + 5
.line:                      ; b, eighteen times c, d
    ld a, b
    ld [hl+], a
    ld a, c
    ld b, 18
.fill:
    ld [hl+], a
    dec b
    jr nz, .fill
    ld a, d
    ld [hl+], a
    ret

close_window:               ; back to the world: status line at the foot of the screen
    call note_ahead
    xor a
    ld [wTextBoxId], a
    ld [wFontLoaded], a
    ld [wMode], a
    call draw_status_line
    ld de, wScreen + 20 * 17
    ld hl, WINDOW_MAP
    ld a, 1
    call show_rows
    ld a, WINDOW_OFF
    ldh [hWindowY], a
    ld a, STATUS_LINE
    ld [wSpriteLimit], a
    ret
