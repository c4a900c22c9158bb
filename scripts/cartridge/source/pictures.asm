; Pictures of creatures: 4x4 tiles, the own one looking the other way.

draw_picture:               ; 4x4 tiles from a on at hl
    ld de, 16
    ld b, 4
.row:
    ld c, 4
.tile:
    ld [hl+], a
    inc a
    dec c
    jr nz, .tile
    add hl, de
    dec b
    jr nz, .row
    ret

blank_picture:
    push hl
    call screen_settled
    pop hl
    ld de, 16
    ld b, 4
.row:
    ld c, 4
    ld a, TILE_SPACE
.tile:
    ld [hl+], a
    dec c
    jr nz, .tile
    add hl, de
    dec b
    jr nz, .row
    ret

kind_picture:               ; hl = picture of creature b
    call kind_record
    ld de, 4
    add hl, de
    ld a, [hl+]
    ld h, [hl]
    ld l, a
    ret

load_foe_picture:           ; creature b
    call kind_picture
    ld de, TEXT_TILES + 16 * (TILE_FOE - 128)
    ld b, 0                 ; 256 bytes
.next:
    ld a, [hl+]
    call put_tile_byte
    dec b
    jr nz, .next
    ret

load_my_picture:            ; creature b, looking the other way
    call kind_picture
    ld de, TEXT_TILES + 16 * (TILE_MINE - 128)
    ld c, 4
.row:
    push bc
    ld bc, 48               ; the row's last tile comes first
    add hl, bc
    ld c, 4
.tile:
    ld b, 16
.byte:
    ld a, [hl+]
    push bc
    call turn_byte
    pop bc
    call put_tile_byte
    dec b
    jr nz, .byte
    push bc
    ld bc, -32
    add hl, bc
    pop bc
    dec c
    jr nz, .tile
    ld bc, 80
    add hl, bc
    pop bc
    dec c
    jr nz, .row
    ret

turn_byte:                  ; mirror the eight bits of a
    ld b, 8
.bit:
    rrca
    rl c
    dec b
    jr nz, .bit
    ld a, c
    ret

put_tile_byte:              ; a to [de], when video memory is free
    push af
    di
.busy:
    ldh a, [STAT]
    and 2
    jr nz, .busy
    pop af
    ld [de], a
    ei
    inc de
    ret
