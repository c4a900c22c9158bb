; Entering a map: its record, its things, its place among its neighbours.
MAP_RECORD equ 23
TOWER_SET  equ 15           ; its wind lets nobody open a bag

enter_map:                  ; map a at y = b, x = c, through a door: the picture goes dark and comes back
    call read_map
    ld a, KEYS_ALL
    ld [wJoyIgnore], a
    call fade_out
    call screen_settled
    di
    call screen_off
    xor a
    ldh [hScrollY], a
    ldh [hScrollX], a
    call draw_view
    call close_window
    call place_sprites
    call hDma
    xor a
    ldh [SCX], a
    ldh [SCY], a
    ldh [IFR], a
    call settle_keys
    ld a, %11100100
    ldh [hPalette], a
    ldh [BGP], a
    ld a, LCDC_ON
    ldh [LCDC], a
    ei
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

read_map:                   ; the same without the picture; $FF is the last row or column
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
    call note_links
    call load_objects
    call load_signs
    call load_warps
    call load_cells
    xor a
    ld [wCutHere], a
    ld hl, wOam
    ld bc, 160
    call clear
    ld a, [wMap]
    cp 11
    ret nc
    ld hl, wTownsSeen
    jp set_bit

find_map:                   ; hl = record of map e
    ld hl, maps
    ld bc, MAP_RECORD
.next:
    ld a, [hl]
    cp e
    ret z
    add hl, bc
    jr .next

read_map_head:              ; from the record at hl; b, c as in read_map
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
    cp TOWER_SET
    ld a, 0
    jr nz, .keys
    ld a, KEYS_MENU
.keys:
    ld [wMapKeys], a
    ld a, [hl]
    ld [wBorder], a
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

record_at:                  ; hl = the current map's record + bc
    ld a, [wMapPtr]
    ld l, a
    ld a, [wMapPtr + 1]
    ld h, a
    add hl, bc
    ret

word_at:                    ; hl = the word at hl
    ld a, [hl+]
    ld h, [hl]
    ld l, a
    ret

load_objects:
    ld bc, 9
    call record_at
    call word_at
    ld de, wObjects
    ld b, 0
.next:
    ld a, [hl]
    inc a
    jr z, .done
    inc b
    push bc
    ld b, 8
    call copy_short
    pop bc
    jr .next
.done:
    ld a, b
    ld [wObjectCount], a
    ret

load_signs:                 ; where the real game has the places of signs
    ld hl, wObjects
    ld de, wSigns
    ld a, [wObjectCount]
    ld b, a
    ld c, 0
    and a
    jr z, .done
.next:
    push hl
    inc hl
    inc hl
    ld a, [hl-]
    dec hl
    cp SIGN
    jr nz, .other
    inc c
    ld a, [hl+]
    ld [de], a
    inc de
    ld a, [hl]
    ld [de], a
    inc de
.other:
    pop hl
    ld a, l
    add a, 8
    ld l, a
    dec b
    jr nz, .next
.done:
    ld a, c
    ld [wSignCount], a
    ret

load_warps:                 ; and write them down where the real game has them
    ld bc, 7
    call record_at
    call word_at
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

note_links:                 ; neighbours and what lives in the grass
    ld bc, 11
    call record_at
    ld de, wLinks
    ld b, 8
    call copy_short
    ld de, wGrass
    ld b, 4
    call copy_short
    ld a, [wGrass + 2]
    ld [wGrassRate], a
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

copy_short:                 ; b bytes from hl to de
    ld a, [hl+]
    ld [de], a
    inc de
    dec b
    jr nz, copy_short
    ret
