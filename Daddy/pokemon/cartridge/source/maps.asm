; Entering a map and looking at it.
MAP_RECORD equ 22

enter_map:                  ; map a at y = b, x = c; $FF is the last row or column
    push bc
    ld e, a
    call find_map
    ld a, l
    ld [wMapPtr], a
    ld a, h
    ld [wMapPtr + 1], a
    pop bc
    call read_map_head
    call place_player
    ld a, $FF
    ld [wJoyIgnore], a
    call fade_out
    call screen_settled
    di
    call screen_off
    call load_cells
    call load_objects
    call load_warps
    call note_map
    call draw_ground
    ld hl, wOam
    ld bc, 160
    call clear
    call close_window
    call place_sprites
    call hDma
    ldh a, [hScrollX]
    ldh [SCX], a
    ldh a, [hScrollY]
    ldh [SCY], a
    ld a, %11100100
    ldh [hPalette], a
    ldh [BGP], a
    xor a
    ld [wJoyIgnore], a
    ldh [IFR], a
    ld a, LCDC_ON
    ldh [LCDC], a
    ei
    ret

find_map:                   ; hl = record of map e
    ld hl, maps
    ld bc, MAP_RECORD
.next:
    ld a, [hl]
    cp e
    ret z
    add hl, bc
    jr .next

read_map_head:              ; from the record at hl; b, c as in enter_map
    ld a, [wMap]
    ld [wLastMap], a
    inc hl
    ld a, [hl+]
    ld [wMapHeight], a
    ld d, a
    ld a, [hl+]
    ld [wMapWidth], a
    ld e, a
    ld a, [hl+]
    ld [wTileset], a
    ld a, b
    inc a
    jr nz, .row
    ld b, d
    dec b
.row:
    ld a, c
    inc a
    jr nz, .column
    ld c, e
    dec c
.column:
    inc d
    srl d
    inc e
    srl e
    ld a, d
    ld [wBlocksHigh], a
    ld a, e
    ld [wBlocksWide], a
    ret

place_player:               ; map, y and x change together
    ld a, [wMapPtr]
    ld l, a
    ld a, [wMapPtr + 1]
    ld h, a
    ld a, [hl]
    ld [wMap], a
    ld a, b
    ld [wY], a
    swap a
    ld [wPixelY], a
    ld a, c
    ld [wX], a
    swap a
    ld [wPixelX], a
    xor a
    ld [wWalkCounter], a
    ld [wMoving], a
    ret

fade_out:
    ldh a, [LCDC]
    bit 7, a
    ret z
    ld a, [wMode]
    and a
    ret nz
    ld a, %10010000
    ldh [hPalette], a
    jp wait_frame

record_word:                ; hl = word at offset bc of the current map's record
    ld a, [wMapPtr]
    ld l, a
    ld a, [wMapPtr + 1]
    ld h, a
    add hl, bc
    ld a, [hl+]
    ld h, [hl]
    ld l, a
    ret

load_cells:
    ld hl, wCells
    ld bc, 256
    call clear
    ld bc, 4
    call record_word
    ld de, wCells
    ld a, [wMapHeight]
    ld b, a
.row:
    ld a, [wMapWidth]
    ld c, a
.cell:
    ld a, [hl+]
    ld [de], a
    inc e
    dec c
    jr nz, .cell
    dec e
    ld a, e
    or 15
    ld e, a
    inc e
    dec b
    jr nz, .row
    ret

load_objects:
    ld bc, 8
    call record_word
    ld de, wObjects
    ld b, 0
.next:
    ld a, [hl]
    inc a
    jr z, .done
    inc b
    ld c, 8
.byte:
    ld a, [hl+]
    ld [de], a
    inc de
    dec c
    jr nz, .byte
    jr .next
.done:
    ld a, b
    ld [wObjectCount], a
    ret

load_warps:                 ; and write them down where the real game has them
    ld bc, 6
    call record_word
    ld a, l
    ld [wWarps], a
    ld a, h
    ld [wWarps + 1], a
    ld de, wWarpEntries
    ld b, 0
.next:
    ld a, [hl+]
    cp $FF
    jr z, .done
    ld [de], a
    inc de
    ld a, [hl+]
    ld [de], a
    inc de
    ld a, b
    ld [de], a
    inc de
    ld a, [hl+]
    ld [de], a
    inc de
    inc hl
    inc hl
    inc b
    jr .next
.done:
    ld a, b
    ld [wWarpCount], a
    ret

note_map:                   ; links, grass, towns seen
    ld a, [wMapPtr]
    ld l, a
    ld a, [wMapPtr + 1]
    ld h, a
    ld bc, 10
    add hl, bc
    ld de, wLinks
    ld b, 8
    call copy_short
    ld de, wGrass
    ld b, 4
    call copy_short
    ld a, [wGrass + 2]
    ld [wGrassRate], a
    call note_connections
    ld a, [wMap]
    cp 11
    ret nc
    ld hl, wTownsSeen
    jp set_bit

copy_short:
    ld a, [hl+]
    ld [de], a
    inc de
    dec b
    jr nz, copy_short
    ret

note_connections:
    ld hl, wLinks
    ld de, connection_bits
    ld bc, $0400
.next:
    ld a, [hl+]
    inc hl
    inc a
    jr z, .none
    ld a, [de]
    or c
    ld c, a
.none:
    inc de
    dec b
    jr nz, .next
    ld a, c
    ld [wConnections], a
    ret

connection_bits:
    db 4, 8, 2, 1

draw_ground:                ; four tiles a cell
    ld de, wCells
    ld hl, GROUND_MAP
.row:
    push de
    ld c, 0
    call .half
    pop de
    ld c, 2
    call .half
    ld a, e
    and a
    jr nz, .row
    ret
.half:
    ld b, 16
.cell:
    ld a, [de]
    inc e
    add a, a
    add a, a
    add a, c
    ld [hl+], a
    inc a
    ld [hl+], a
    dec b
    jr nz, .cell
    ret

place_camera:               ; the player in the middle, but never beyond the map
    ld a, [wMapWidth]
    cp 10
    jr nc, .wide
    add a, a
    add a, a
    add a, a
    sub 80
    jr .set_x
.wide:
    sub 10
    swap a
    ld b, a
    ld a, [wPixelX]
    sub 72
    jr nc, .right
    xor a
.right:
    cp b
    jr c, .set_x
    ld a, b
.set_x:
    ldh [hScrollX], a
    ld a, [wMapHeight]
    cp 9
    jr nc, .high
    add a, a
    add a, a
    add a, a
    sub 68
    jr .set_y
.high:
    sub 8
    swap a
    sub 8
    ld b, a
    ld a, [wPixelY]
    sub 64
    jr nc, .down
    xor a
.down:
    cp b
    jr c, .set_y
    ld a, b
.set_y:
    ldh [hScrollY], a
    ret
