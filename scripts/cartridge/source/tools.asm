; Random numbers, flags, bits, numbers on screen.

random:                     ; next state = 5 * state + $3601 + 2 * seed; a = its high byte
    ldh a, [hRandomHigh]
    ld h, a
    ld d, a
    ldh a, [hRandomLow]
    ld l, a
    ld e, a
    add hl, hl
    add hl, hl
    add hl, de
    ld a, [wSeed]
    add a, a
    ld e, a
    ld a, $36
    adc a, 0
    ld d, a
    inc e                   ; an odd step visits every state
    add hl, de
    ld a, l
    ldh [hRandomLow], a
    ld a, h
    ldh [hRandomHigh], a
    ret

flag_place:                 ; flag a -> hl its byte, b its bit
    ld l, a
    ld h, 0
    ld d, h
    ld e, l
    add hl, hl
    add hl, de
    ld de, flag_places
    add hl, de
    ld a, [hl+]
    ld e, a
    ld a, [hl+]
    ld b, [hl]
    ld h, a
    ld l, e
    ret

test_flag:                  ; nz when flag a is set; NONE never is
    cp NONE
    jr z, .never
    call flag_place
    ld a, [hl]
    and b
    ret
.never:
    xor a
    ret

raise_flag:                 ; set flag a, for good
    cp NONE
    ret z
    call flag_place
    ld a, [hl]
    or b
    ld [hl], a
    ret

set_bit:                    ; bit a of the array at hl
    ld c, a
    srl a
    srl a
    srl a
    add a, l
    ld l, a
    jr nc, .same
    inc h
.same:
    ld a, c
    call bit_mask
    or [hl]
    ld [hl], a
    ret

bit_mask:                   ; a = 1 << (a & 7)
    and 7
    ld b, a
    ld a, 1
    ret z
.shift:
    add a, a
    dec b
    jr nz, .shift
    ret

print_lines:                ; from hl: place, text, ...; ends with a zero place
    ld a, [hl+]
    ld e, a
    ld a, [hl+]
    ld d, a
    or e
    ret z
    call print
    jr print_lines

print:                      ; text at hl to the screen at de, to END; then hl behind END
    ld a, [hl+]
    cp END
    ret z
    cp NEWLINE
    jr z, .newline
    ld [de], a
    inc de
    jr print
.newline:
    ld de, wScreen + 20 * 16 + 1
    jr print

print_number:               ; a as three places at hl, zeros in front left out
    ld c, 0
    ld b, 100
    call .digit
    ld b, 10
    call .digit
    ld c, 1
    ld b, 1
.digit:                     ; c: a digit was printed
    ld d, $F6
.count:
    sub b
    jr c, .counted
    inc d
    ld c, 1
    jr .count
.counted:
    add a, b
    ld e, a
    ld a, c
    and a
    ld a, TILE_SPACE
    jr z, .put
    ld a, d
.put:
    ld [hl+], a
    ld a, e
    ret

print_decimal:              ; packed decimal: c bytes at de to hl
    ld a, [de]
    swap a
    and $0F
    add a, $F6
    ld [hl+], a
    ld a, [de]
    inc de
    and $0F
    add a, $F6
    ld [hl+], a
    dec c
    jr nz, print_decimal
    ret

print_two:                  ; a as two places at hl, with a zero in front
    ld c, $F6
.tens:
    sub 10
    jr c, .ones
    inc c
    jr .tens
.ones:
    ld [hl], c
    inc hl
    ld [hl+], a             ; ones - 10, which is the digit's letter
    ret
