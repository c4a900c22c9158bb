; What is seen of a map: its cells with five cells of its surroundings on every side, and the ten by
; nine of them around the player on screen. The background is a ring: walking draws only the row or
; column that comes into sight, so that the country scrolls on across the edges of maps.
MARGIN     equ 5
ROW_CELLS  equ 32           ; cells of one row in wCells
ROWS_KEPT  equ 26           ; 16 and the margins

load_cells:                 ; the border everywhere, then the map, then its neighbours
    ld hl, wCells
    ld bc, ROW_CELLS * ROWS_KEPT
    ld a, [wBorder]
    ld d, a
.border:
    ld a, d
    ld [hl+], a
    dec bc
    ld a, b
    or c
    jr nz, .border
    ld bc, 0
    call record_at
    ld bc, 0
    call blit_map
    ld hl, wLinks
    ld c, 0
.neighbour:
    push bc
    push hl
    call blit_neighbour
    pop hl
    inc hl
    inc hl
    pop bc
    inc c
    ld a, c
    cp 4
    jr nz, .neighbour
    ret

blit_neighbour:             ; link at hl lies in direction c: 0 down, 1 up, 2 left, 3 right
    ld a, [hl+]
    cp NONE
    ret z
    ld e, a
    xor a
    sub [hl]
    ld d, a                 ; minus the shift
    ld a, c
    push af
    push de
    call find_map
    pop de
    pop af
    inc hl
    cp 1
    jr z, .up
    jr c, .down
    ld b, d
    cp 2
    ld a, [wMapWidth]
    jr nz, .right
    inc hl                  ; left: as far out as the neighbour is wide
    xor a
    sub [hl]
    dec hl
.right:
    ld c, a
    dec hl
    jr blit_map
.up:
    xor a
    sub [hl]
    jr .column
.down:
    ld a, [wMapHeight]
.column:
    ld b, a
    ld c, d
    dec hl

blit_map:                   ; cells of the record at hl, its corner at row b, column c of this map
    ld a, b
    add a, MARGIN
    ld [wBlitRow], a
    ld a, c
    add a, MARGIN
    ld [wBlitColumn], a
    inc hl
    ld a, [hl+]
    ld [wBlitHeight], a
    ld a, [hl+]
    ld [wBlitWidth], a
    inc hl
    inc hl
    call word_at
.row:
    ld a, [wBlitRow]
    cp ROWS_KEPT
    jr nc, .outside
    call row_address
    ld a, [wBlitWidth]
    ld b, a
    ld a, [wBlitColumn]
    ld c, a
.cell:
    ld a, c
    cp ROW_CELLS
    jr nc, .skip
    push de
    add a, e
    ld e, a
    ld a, [hl]
    ld [de], a
    pop de
.skip:
    inc hl
    inc c
    dec b
    jr nz, .cell
    jr .next
.outside:
    ld a, [wBlitWidth]
    ld c, a
    ld b, 0
    add hl, bc
.next:
    ld a, [wBlitRow]
    inc a
    ld [wBlitRow], a
    ld a, [wBlitHeight]
    dec a
    ld [wBlitHeight], a
    jr nz, .row
    ret

row_address:                ; de = row a of wCells; rows never cross a page
    ld e, a
    swap e
    sla e                   ; low byte of 32 * a
    rrca
    rrca
    rrca
    and %00011111
    add a, high(wCells)
    ld d, a
    ld a, e
    and %11100000
    ld e, a
    ret

cell_at:                    ; a = the cell at y = b, x = c, from five before the map on; de its place
    ld a, b
    add a, MARGIN
    call row_address
    ld a, c
    add a, MARGIN
    add a, e
    ld e, a
    ld a, [de]
    ret

draw_view:                  ; all ten by nine, the screen being off
    ld b, -4
.row:
    call draw_row
    inc b
    ld a, b
    cp 5
    jr nz, .row
    ret

draw_row:                   ; row b below the player, columns -5 to 6
    ld c, -5
.cell:
    call draw_cell
    inc c
    ld a, c
    cp 7
    jr nz, .cell
    ret

draw_column:                ; column c right of the player, rows -5 to 5
    ld b, -5
.cell:
    call draw_cell
    inc b
    ld a, b
    cp 6
    jr nz, .cell
    ret

draw_cell:                  ; the cell b below and c right of the player, four tiles; keeps b, c
    push bc
    call ring_address
    push hl
    ld a, [wY]
    add a, b
    ld b, a
    ld a, [wX]
    add a, c
    ld c, a
    call cell_at
    pop hl
    add a, a
    add a, a
    call put_tiles
    inc a
    ld de, 31
    add hl, de
    call put_tiles
    pop bc
    ret

ring_address:               ; hl = tiles of that cell in the background's ring of 16 x 16 cells
    ldh a, [hScrollY]
    swap a
    add a, 4
    add a, b
    and 15
    ld l, a
    ldh a, [hScrollX]
    swap a
    add a, 4
    add a, c
    and 15
    add a, a
    ld e, a
    ld d, 0
    ld h, 0
    add hl, hl
    add hl, hl
    add hl, hl
    add hl, hl
    add hl, hl
    add hl, hl              ; 64 tiles to a row of cells
    add hl, de
    ld de, GROUND_MAP
    add hl, de
    ret

put_tiles:                  ; a and the next one to [hl], when video memory is free
    push af
    di
.busy:
    ldh a, [STAT]
    and 2
    jr nz, .busy
    pop af
    ld [hl+], a
    inc a
    ld [hl], a
    ei
    ret
