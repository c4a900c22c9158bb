; Sprites: the player in the middle of the screen, people and things where they stand.

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
    cp SIGN
    jr c, put_sprite
    bit 7, a                ; MIRROR
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
