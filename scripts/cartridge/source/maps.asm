; Entering a map: its record, its things, its place among its neighbours.
MAP_RECORD equ 23
WARP_BY_SCRIPT equ 3
MAP_FRAMES equ 3            ; for so long map and place do not belong together, as in the real game
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
    ld hl, wStatus3
    res WARP_BY_SCRIPT, [hl]
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

place_player:               ; map, y and x change together; where a script leads, the map comes first
    ld a, [wMapPtr]
    ld l, a
    ld a, [wMapPtr + 1]
    ld h, a
    ld a, [hl]
    ld [wMap], a
    ld a, [wStatus3]
    bit WARP_BY_SCRIPT, a
    jr z, .place
    push bc
    ld a, MAP_FRAMES
    call wait_frames
    pop bc
.place:
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

copy_short:                 ; b bytes from hl to de
    ld a, [hl+]
    ld [de], a
    inc de
    dec b
    jr nz, copy_short
    ret
