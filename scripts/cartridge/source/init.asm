; Power on: clear the memories, load the pictures, show the title.
start:
    di
    ld sp, STACK_TOP
    xor a
    ldh [IE], a
    call screen_off
    ld hl, $C000
    ld bc, $1F00            ; the stack's page stays
    call clear
    ld hl, $8000
    ld bc, $2000
    call clear
    ld hl, $FE00
    ld bc, 160
    call clear
    ld hl, $FF80
    ld bc, $7E
    call clear
    call load_tiles
    ld hl, dma_code
    ld de, hDma
    ld bc, 10
    call copy
    ld a, %11100100
    ldh [hPalette], a
    ld a, %11100000         ; sprites: white, light, black
    ldh [OBP0], a
    ld a, %11010000
    ldh [OBP1], a
    ld a, 7
    ldh [WX], a
    ld a, WINDOW_OFF
    ldh [hWindowY], a
    call open_title
    ld a, FIRST_LINE
    ldh [LYC], a
    ld a, %01000000         ; an interrupt when that line begins
    ldh [STAT], a
    ld a, %00000011
    ldh [IE], a
    xor a
    ldh [IFR], a
    ld a, LCDC_ON
    ldh [LCDC], a
    ei
    jp main

screen_off:                 ; only inside the vertical blank, or the real machine suffers
    ldh a, [LCDC]
    bit 7, a
    ret z
.wait:
    ldh a, [LY]
    cp 145
    jr c, .wait
    xor a
    ldh [LCDC], a
    ret

load_tiles:
    ld hl, terrain
    ld de, GROUND_TILES
    ld bc, terrain_end - terrain
    call copy
    ld hl, letters_a
    ld de, TEXT_TILES
    ld bc, letters_a_end - letters_a
    call copy
    ld hl, signs
    ld de, TEXT_TILES + 16 * (TILE_BAR - 128)
    ld bc, signs_end - signs
    call copy
    ld hl, letters_b
    ld de, TEXT_TILES + 16 * ($E0 - 128)
    ld bc, letters_b_end - letters_b
    call copy
    ld hl, people
    ld de, SPRITE_TILES
    ld bc, people_end - people
copy:                       ; bc bytes from hl to de
    ld a, [hl+]
    ld [de], a
    inc de
    dec bc
    ld a, b
    or c
    jr nz, copy
    ret

clear:                      ; bc bytes at hl
    xor a
    ld [hl+], a
    dec bc
    ld a, b
    or c
    jr nz, clear
    ret

dma_code:                   ; runs in high memory while sprites are copied
    ld a, high(wOam)
    ldh [DMA], a
    ld a, 40
.wait:
    dec a
    jr nz, .wait
    ret
