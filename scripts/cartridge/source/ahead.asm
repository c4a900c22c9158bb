; What lies around the player, in tiles of the real game's screen: only the four cells that one can
; face, for those who read there whether a shrub stands in the way.
SHRUB_TILE equ $3D

note_ahead:                 ; keeps nothing; cheap enough for every step
    ld b, 1
    ld c, 0
    ld hl, wScreen + 20 * 11 + 8
    call note_cell
    ld b, -1
    ld c, 0
    ld hl, wScreen + 20 * 7 + 8
    call note_cell
    ld b, 0
    ld c, -1
    ld hl, wScreen + 20 * 9 + 6
    call note_cell
    ld b, 0
    ld c, 1
    ld hl, wScreen + 20 * 9 + 10

note_cell:                  ; the cell b below and c right of the player, at hl
    ld a, [wY]
    add a, b
    ld b, a
    ld [wTargetY], a
    ld a, [wX]
    add a, c
    ld c, a
    ld [wTargetX], a
    call cell_at
    add a, a
    add a, a
    add a, 2                ; its lower left tile
    ld [hl], a
    push hl
    call find_object
    jr nc, .ground
    ld bc, O_PICTURE
    add hl, bc
    ld a, [hl]
    pop hl
    cp PIC_SHRUB
    ret nz
    ld [hl], SHRUB_TILE
    ret
.ground:
    pop hl
    ret
