; What happens at every vertical blank: sprites, scrolling, up to six rows of the window, then
; the random number and the clock.
vblank:
    push af
    push bc
    push de
    push hl
    call hDma
    ldh a, [hScrollX]
    ldh [SCX], a
    ldh a, [hScrollY]
    ldh [SCY], a
    ldh a, [hPalette]
    ldh [BGP], a
    ld a, [wShift]
    add a, 7
    ldh [WX], a
    ldh a, [hWindowY]
    cp WINDOW_OFF
    jr nz, .window
    ld a, STATUS_LINE
.window:
    ldh [WY], a
    ld a, [wRowsLeft]
    and a
    call nz, copy_rows
    call random
    ld hl, hFrame
    inc [hl]
    ld a, [wStatus6]
    bit 0, a
    call nz, clock
    ld a, 1
    ldh [hEarly], a
    xor a
    ldh [hVblank], a
    pop hl
    pop de
    pop bc
    pop af
    reti

copy_rows:                  ; at most six rows of the screen buffer into the window
    ld hl, wRowsFrom
    ld a, [hl+]
    ld e, a
    ld a, [hl+]
    ld d, a
    ld a, [hl+]
    ld h, [hl]
    ld l, a
    ld b, 6
.row:
rept 20
    ld a, [de]
    inc de
    ld [hl+], a
endr
    ld a, 12
    add a, l
    ld l, a
    jr nc, .same
    inc h
.same:
    ld a, [wRowsLeft]
    dec a
    ld [wRowsLeft], a
    jr z, .done
    dec b
    jr nz, .row
.done:
    ld a, l
    ld [wRowsTo], a
    ld a, h
    ld [wRowsTo + 1], a
    ld hl, wRowsFrom
    ld a, e
    ld [hl+], a
    ld [hl], d
    ret

clock:
    ld hl, wFrames
    call .tick
    ret nz
    ld hl, wSeconds
    call .tick
    ret nz
    ld hl, wMinutes
    call .tick
    ret nz
    ld hl, wHours
    inc [hl]
    ret nz
    ld [hl], 255
    ret
.tick:                      ; z when the count of sixty is full
    inc [hl]
    ld a, [hl]
    cp 60
    ret nz
    ld [hl], 0
    ret
