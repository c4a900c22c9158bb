; From map to map: doors and edges.
find_warp:                  ; carry, and a, b, c for enter_map, when this cell is one
    ld a, [wWarps]
    ld l, a
    ld a, [wWarps + 1]
    ld h, a
.next:
    ld a, [hl+]
    cp $FF
    ret z
    ld b, a
    ld a, [hl+]
    ld c, a
    ld a, [wY]
    cp b
    jr nz, .skip
    ld a, [wX]
    cp c
    jr nz, .skip
    ld a, [hl+]
    ld d, a
    ld a, [hl+]
    ld b, a
    ld c, [hl]
    ld a, d
    scf
    ret
.skip:
    inc hl
    inc hl
    inc hl
    jr .next

leave_by_edge:              ; into the neighbour, shifted along the edge; the picture scrolls on
    ld a, [wFacing]         ; 0, 4, 8, 12: down, up, left, right
    srl a
    ld c, a
    ld b, 0
    ld hl, wLinks
    add hl, bc
    ld a, [hl+]
    cp NONE
    ret z
    ld d, a
    ld e, [hl]
    push de
    call draw_ahead
    pop de
    ld a, [wY]
    ld b, a
    ld a, [wX]
    ld c, a
    ld a, [wFacing]
    and LEFT
    jr nz, .sideways
    ld a, c
    add a, e
    ld c, a
    ld b, 0
    ld a, [wFacing]
    and a
    jr z, .go
    ld b, $FF
    jr .go
.sideways:
    ld a, b
    add a, e
    ld b, a
    ld c, 0
    ld a, [wFacing]
    cp RIGHT
    jr z, .go
    ld c, $FF
.go:
    ld a, d
    call read_map
    call one_cell_back
    ld a, [wY]
    ld [wTargetY], a
    ld a, [wX]
    ld [wTargetX], a
    call cell_rule
    ld a, 1
    jp start_step

one_cell_back:              ; the step into the new map has yet to be walked
    ld hl, wPixelY
    ld a, [wFacing]
    and LEFT
    jr z, .axis
    inc hl
.axis:
    ld b, 16
    ld a, [wFacing]
    cp UP
    jr z, .move
    cp LEFT
    jr z, .move
    ld b, -16
.move:
    ld a, [hl]
    add a, b
    ld [hl], a
    ret
