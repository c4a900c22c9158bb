; Walking: one cell in 16 frames; a ledge is hopped over downwards, never climbed.
STEP_FRAMES   equ 16
GRASS_CHANCE  equ 26        ; of 256, for each step
CAVE_CHANCE   equ 13
CALM_STEPS    equ 3         ; after a fight

world_frame:
    ld a, [wWalkCounter]
    and a
    jp nz, walk_frame
    ld a, [wScript + 1]
    and a
    jp nz, scene_frame
    ldh a, [hPressed]
    bit KEY_A, a
    jp nz, interact
    bit KEY_START, a
    jp nz, open_start
    ldh a, [hHeld]
    ld bc, (DOWN * 256) + 4
    bit 7, a
    jr nz, set_out
    ld bc, (UP * 256) + 8
    bit 6, a
    jr nz, set_out
    ld bc, (LEFT * 256) + 2
    bit 5, a
    jr nz, set_out
    ld bc, (RIGHT * 256) + 1
    bit 4, a
    ret z

set_out:                    ; a step in direction b, whose bit is c, if the ground allows it
    ld a, b
    ld [wFacing], a
    ld a, c
    ld [wDirection], a
    call aim
    jp c, leave_by_edge
    call cell_rule
    ld b, a
    bit 2, b                ; LEDGE
    jr nz, hop
    and WALK
    ret z
    call find_object
    ret c
    call draw_ahead
    ld a, 1
    jr start_step

hop:                        ; downwards only
    ld a, [wFacing]
    cp DOWN
    ret nz
    ld hl, wTargetY
    inc [hl]
    call find_object        ; nobody may stand where one lands
    ret c
    call cell_rule
    ld hl, wMoveFlags
    set 6, [hl]
    ld b, 5
    call draw_row
    ld b, 6
    call draw_row
    ld a, 2
start_step:                 ; a = pixels a frame
    ld [wWalkSpeed], a
    ld a, [wTargetY]
    ld [wY], a
    ld a, [wTargetX]
    ld [wX], a
    ld a, [wDirection]
    ld [wMoving], a
    ld a, STEP_FRAMES
    ld [wWalkCounter], a
    ld hl, wStepParity
    inc [hl]
    ret

draw_ahead:                 ; before the player leaves its cell: the row or column that comes next
    ld a, [wFacing]
    ld b, 5
    and a
    jr z, .row
    ld b, -5
    cp UP
    jr z, .row
    ld c, -5
    cp LEFT
    jp z, draw_column
    ld c, 6
    jp draw_column
.row:
    jp draw_row

aim:                        ; target = the cell in front; carry when it lies off the map
    ld a, [wY]
    ld b, a
    ld a, [wX]
    ld c, a
step_aim:                   ; the same from b, c
    ld a, [wFacing]
    cp DOWN
    jr nz, .up
    inc b
.up:
    cp UP
    jr nz, .left
    dec b
.left:
    cp LEFT
    jr nz, .right
    dec c
.right:
    cp RIGHT
    jr nz, .aimed
    inc c
.aimed:
    ld a, b
    ld [wTargetY], a
    ld a, c
    ld [wTargetX], a
    ld a, [wMapHeight]
    dec a
    cp b
    ret c
    ld a, [wMapWidth]
    dec a
    cp c
    ret

cell_rule:                  ; a = what the target cell allows
    ld a, [wTargetY]
    ld b, a
    ld a, [wTargetX]
    ld c, a
    call cell_at
    ld [wTargetCell], a
rule_of_cell:
    ld c, a
    ld b, 0
    ld hl, cell_rules
    add hl, bc
    ld a, [hl]
    ret

walk_frame:                 ; player and picture move by the same number of pixels
    ld a, [wWalkSpeed]
    ld b, a
    ld a, [wFacing]
    cp DOWN
    jr z, .forward
    cp RIGHT
    jr z, .forward
    xor a
    sub b
    ld b, a
.forward:
    ld a, [wFacing]
    and LEFT                ; left and right share this bit
    jr nz, .sideways
    ld hl, wPixelY
    ld c, low(hScrollY)
    jr .move
.sideways:
    ld hl, wPixelX
    ld c, low(hScrollX)
.move:
    ld a, [hl]
    add a, b
    ld [hl], a
    ldh a, [c]
    add a, b
    ldh [c], a
    ld hl, wWalkCounter
    dec [hl]
    ret nz
    xor a
    ld [wMoving], a
    ld hl, wMoveFlags
    res 6, [hl]

finish_step:                ; doors first, then watchers, then what lives in the grass
    call note_ahead
    ld a, [wScript + 1]
    and a
    ret nz                  ; a script walks: it knows where
    call find_warp
    jp c, enter_map
    call find_fork
    jp c, warp_by_script
    call watched
    ret c
    ld a, [wPartyCount]
    and a
    ret z
    ld a, [wTargetCell]
    call rule_of_cell
    ld b, GRASS_CHANCE
    bit 1, [hl]             ; GRASS
    jr nz, .wild
    ld b, CAVE_CHANCE
    bit 4, [hl]             ; CAVE
    ret z
.wild:
    ld a, [wGrassRate]
    and a
    ret z
    ld a, [wStepsCalm]
    and a
    jr z, .dice
    dec a
    ld [wStepsCalm], a
    ret
.dice:
    push bc
    call random
    pop bc
    cp b
    ret nc
    jp start_wild
