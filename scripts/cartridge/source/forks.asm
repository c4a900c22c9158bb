; Stairs of which one of three leads up: which, the world decided when it was told (scenes.asm).
FORK_RECORD equ 8
FALL_FRAMES equ 8           ; six times dark, six times light

find_fork:                  ; carry, and a, b, c for enter_map, when this cell is one
    ld hl, forks
    ld a, [hl+]
    ld d, a
    push hl                 ; (row and column of the fall)
    inc hl
    inc hl
.next:
    ld a, [hl]
    cp $FF
    jr z, .none
    push hl
    call is_here
    pop hl
    jr z, .here
    ld bc, FORK_RECORD
    add hl, bc
    jr .next
.none:
    pop hl
    and a
    ret
.here:
    inc hl
    inc hl
    inc hl
    ld a, [hl+]             ; floor
    add a, low(wSecret)
    ld c, a
    ld b, high(wSecret)
    ld a, [bc]
    cp [hl]
    inc hl
    jr z, .true
    pop hl
    call fall
    jr .to
.true:
    pop bc
    ld d, [hl]
    inc hl
.to:
    ld a, [hl+]
    ld b, a
    ld c, [hl]
    ld a, d
    scf
    ret

is_here:                    ; z when map, y, x at hl are the player's
    ld a, [wMap]
    cp [hl]
    ret nz
    inc hl
    ld a, [wY]
    cp [hl]
    ret nz
    inc hl
    ld a, [wX]
    cp [hl]
    ret

fall:                       ; the floor gives way; keeps d, hl
    ld a, KEYS_ALL
    ld [wJoyIgnore], a
    push de
    push hl
    ld d, 6
.shake:
    ld a, %11111001
    ldh [hPalette], a
    ld a, FALL_FRAMES
    call wait_frames
    ld a, %11100100
    ldh [hPalette], a
    ld a, FALL_FRAMES
    call wait_frames
    dec d
    jr nz, .shake
    pop hl
    pop de
    ret
