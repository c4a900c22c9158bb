; People and things. An object is 8 bytes: y, x, picture, direction + 16 * cells watched, flag,
; STAYS or GOES, script.
O_LOOK   equ 3
O_FLAG   equ 4
O_SCRIPT equ 6

interact:                   ; A in the world: whoever stands in front, also behind a counter
    call aim
    ret c
    call cell_rule
    bit 3, a                ; COUNTER
    jr z, .look
    ld a, [wTargetY]
    ld b, a
    ld a, [wTargetX]
    ld c, a
    call step_aim
    ret c
.look:
    call find_object
    ret nc
start_script:               ; of the object at hl
    ld bc, O_SCRIPT
    add hl, bc
    ld a, [hl+]
    ld [wScript], a
    ld a, [hl]
    ld [wScript + 1], a
    ret

find_object:                ; carry and hl when an object stands on the target cell
    ld hl, wObjects
    ld a, [wObjectCount]
    and a
    ret z
    ld c, a
.next:
    push bc
    ld a, [wTargetY]
    cp [hl]
    jr nz, .no
    inc hl
    ld a, [wTargetX]
    cp [hl]
    dec hl
    jr nz, .no
    call object_gone
    jr nz, .no
    pop bc
    scf
    ret
.no:
    ld bc, 8
    add hl, bc
    pop bc
    dec c
    jr nz, .next
    and a
    ret

object_gone:                ; nz when the object at hl has left; keeps hl
    push hl
    ld de, O_FLAG
    add hl, de
    ld a, [hl+]
    ld c, a
    ld a, [hl]
    and a
    jr z, .here
    ld a, c
    call test_flag
.here:
    pop hl
    ret

watched:                    ; carry when a trainer has seen the player: its script starts
    ld a, [wPartyCount]
    and a
    ret z
    ld hl, wObjects
    ld a, [wObjectCount]
    and a
    ret z
    ld c, a
.next:
    push bc
    push hl
    call sees_player
    pop hl
    pop bc
    jr c, .seen
    ld de, 8
    add hl, de
    dec c
    jr nz, .next
    and a
    ret
.seen:
    call start_script
    scf
    ret

sees_player:                ; carry when the object at hl sees the player
    ld a, [hl+]
    ld d, a
    ld a, [hl+]
    ld e, a
    inc hl
    ld a, [hl+]
    ld b, a
    and $F0
    ret z
    push de
    push bc
    ld a, [hl]
    call test_flag
    pop bc
    pop de
    jr nz, .blind
    ld a, [wY]
    sub d
    ld d, a                 ; player is d below and e to the right
    ld a, [wX]
    sub e
    ld e, a
    ld a, b
    swap a
    and 15
    ld c, a                 ; how far it sees
    ld a, b
    and 15
    cp DOWN
    jr z, .line
    cp UP
    jr z, .up
    ld h, d                 ; sideways: swap the axes
    ld d, e
    ld e, h
    cp RIGHT
    jr z, .line
.up:                        ; against the axis: change the sign
    xor a
    sub d
    ld d, a
.line:
    ld a, e
    and a
    jr nz, .blind
    ld a, d
    dec a
    cp c                    ; carry when 1 <= d <= c
    ret
.blind:
    and a
    ret

place_sprites:
    call place_player_sprite
    ld a, [wObjectCount]
    and a
    ret z
    ld b, a
    ld hl, wObjects
    ld de, wOam + 8
.next:
    push bc
    push de
    push hl
    call place_object
    pop hl
    pop de
    ld bc, 8
    add hl, bc
    ld a, e
    add a, 8
    ld e, a
    pop bc
    dec b
    jr nz, .next
    ret

place_player_sprite:
    ld a, [wFacing]
    ld d, PIC_PLAYER
    and a
    jr z, .facing
    ld d, PIC_PLAYER + 2
    cp UP
    jr z, .facing
    ld d, PIC_PLAYER + 4
    cp LEFT
    jr z, .facing
    ld d, PIC_PLAYER + 4 + MIRROR
.facing:
    ld a, [wWalkCounter]
    bit 3, a
    jr z, .standing
    inc d
    ld a, [wFacing]
    and LEFT
    jr nz, .standing
    ld a, [wStepParity]
    rrca
    and MIRROR
    or d
    ld d, a
.standing:
    ld a, [wPixelY]
    ld b, a
    ld a, [wMoveFlags]
    bit 6, a
    jr z, .grounded
    ld a, [wWalkCounter]    ; a hop goes up and comes down
    bit 3, a
    jr z, .falling
    cpl
    add a, 17
.falling:
    and 7
    cpl
    inc a
    add a, b
    ld b, a
.grounded:
    ld a, [wPixelX]
    ld c, a
    ld hl, wOam
    jr put_sprite

place_object:               ; the object at hl to the sprites at de
    push de
    call object_gone
    pop de
    jr nz, .gone
    ld a, [wY]              ; far from the player it would wrap round the screen
    ld b, a
    ld a, [hl]
    sub b
    add a, 6
    cp 13
    jr nc, .gone
    ld a, [hl+]
    swap a
    ld c, a
    ld a, [wX]
    ld b, a
    ld a, [hl]
    sub b
    add a, 7
    cp 15
    jr nc, .gone
    ld b, c
    ld a, [hl+]
    swap a
    ld c, a
    ld a, [hl]
    ld h, d
    ld l, e
    ld d, a
    cp INVISIBLE
    jr nz, put_sprite
.gone:
    ld h, d
    ld l, e
    jr hide_sprite

put_sprite:                 ; picture d at map pixel b, c to the two sprites at hl
    ld a, [wPixelY]
    ld e, a
    ld a, b
    sub e
    add a, 60
    ld b, a
    add a, 16               ; lowest line, +1
    jr c, .above
    ld e, a
    ld a, [wSpriteLimit]
    cp e
    jr c, hide_sprite
.above:
    ld a, [wSpriteLimit]
    and a
    jr z, hide_sprite
    ld a, [wPixelX]
    ld e, a
    ld a, c
    sub e
    add a, 64
    ld c, a
    cp 160
    jr c, .visible
    cp 241
    jr c, hide_sprite
.visible:
    ld a, d
    and $7F
    add a, a
    add a, a
    ld e, a                 ; tile of the left half
    ld a, d
    and MIRROR
    srl a
    srl a                   ; $20 turns a sprite round
    ld d, a
    jr z, .straight
    inc e
    inc e
.straight:
    call .half
    ld a, e
    xor 2
    ld e, a
    ld a, c
    add a, 8
    ld c, a
.half:
    ld a, b
    add a, 16
    ld [hl+], a
    ld a, c
    add a, 8
    ld [hl+], a
    ld a, e
    ld [hl+], a
    ld a, d
    ld [hl+], a
    ret

hide_sprite:
    xor a
    ld [hl+], a
    inc hl
    inc hl
    inc hl
    ld [hl], a
    ret
