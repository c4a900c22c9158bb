; Pictures, names and bars of a fight. The foe fills rows 0 to 5, one's own side rows 6 to 11.
FOE_PICTURE  equ wScreen + 20 * 1 + 14
MINE_PICTURE equ wScreen + 20 * 6 + 2

draw_battle:
    call clear_screen
    call foe_side
    call my_side
    call draw_box
    jp show_all

draw_foe:
    call screen_settled
    call foe_side
foe_rows:
    ld de, wScreen
    ld hl, WINDOW_MAP
    ld a, 6
    jp show_rows

draw_mine:
    call screen_settled
    call my_side
my_rows:
    ld de, wScreen + 20 * 6
    ld hl, WINDOW_MAP + 32 * 6
    ld a, 6
    jp show_rows

blank_foe:
    ld hl, FOE_PICTURE
    call blank_picture
    jr foe_rows

blank_mine:
    ld hl, MINE_PICTURE
    call blank_picture
    jr my_rows

battle_text:                ; text at hl into the box
    push hl
    call screen_settled
    call draw_box
    pop hl
    ld de, wScreen + 20 * 14 + 1
    call print
show_text:
    ld de, wScreen + 20 * 12
    ld hl, WINDOW_MAP + 32 * 12
    ld a, 6
    jp show_rows

foe_side:
    ld a, [wFoeKind]
    ld b, a
    ld de, wScreen + 20 * 1 + 1
    call print_kind
    ld hl, wScreen + 20 * 2 + 2
    ld a, [wFoeLevel]
    call print_level
    ld a, [wFoeHp + 1]
    ld b, a
    ld a, [wFoeMaxHp + 1]
    ld c, a
    ld hl, wScreen + 20 * 3 + 2
    call draw_bar
    call draw_balls
    ld hl, FOE_PICTURE
    ld a, TILE_FOE
    call draw_picture
    ld hl, FOE_PICTURE + 20 * 4
    jr draw_shadow

my_side:
    ld a, [wMyKind]
    ld b, a
    ld de, wScreen + 20 * 7 + 9
    call print_kind
    ld bc, MON_LEVEL
    call my_mon
    ld a, [hl]
    ld hl, wScreen + 20 * 8 + 10
    call print_level
    call my_hp
    push bc
    ld hl, wScreen + 20 * 9 + 10
    call draw_bar
    pop bc
    push bc
    ld hl, wScreen + 20 * 10 + 11
    ld a, b
    call print_number
    ld a, $F3               ; a stroke between HP and the most
    ld [hl+], a
    pop bc
    ld a, c
    call print_number
    ld hl, MINE_PICTURE
    ld a, TILE_MINE
    call draw_picture
    ld hl, MINE_PICTURE + 20 * 4

draw_shadow:
    ld a, TILE_GROUND
    ld [hl+], a
    inc a
    ld [hl+], a
    ld [hl+], a
    inc a
    ld [hl], a
    ret

my_hp:                      ; b = HP, c = most HP of the creature that fights
    ld bc, MON_HP + 1
    call my_mon
    ld a, [hl]
    ld bc, MON_MAXHP - MON_HP
    add hl, bc
    ld b, a
    ld c, [hl]
    ret

print_kind:                 ; name of creature b at de
    push de
    call kind_name
    pop de
    jp print

print_level:                ; a at hl
    ld [hl], TILE_LEVEL
    inc hl
    jp print_two

draw_balls:                 ; how many a trainer has left
    ld hl, wScreen + 20 * 4 + 2
    ld b, 6
    ld c, 0
    ld a, [wInBattle]
    cp 2
    jr nz, .draw
    ld a, [wFoeIndex]
    ld c, a
    ld a, [wFoeCount]
    sub c
    ld c, a
.draw:
    ld a, c
    and a
    ld a, TILE_SPACE
    jr z, .put
    dec c
    ld a, TILE_BALL
.put:
    ld [hl+], a
    dec b
    jr nz, .draw
    ret

draw_bar:                   ; b of c as a heart and six tiles at hl
    ld [hl], TILE_HEART
    inc hl
    push hl
    call bar_pixels
    pop hl
    ld b, 6
.tile:
    ld a, e
    cp 8
    jr c, .last
    ld a, 8
.last:
    ld c, a
    ld a, e
    sub c
    ld e, a
    ld a, c
    add a, TILE_BAR
    ld [hl+], a
    dec b
    jr nz, .tile
    ret

bar_pixels:                 ; e = 48 * b / c, at least 1 while b is not 0
    ld e, 0
    ld a, b
    and a
    ret z
    ld a, c
    and a
    ret z
    ld h, 0
    ld l, b
    add hl, hl
    add hl, hl
    add hl, hl
    add hl, hl
    ld d, h
    ld e, l
    add hl, hl
    add hl, de
    ld e, 0
.again:
    ld a, l
    sub c
    ld l, a
    ld a, h
    sbc a, 0
    ld h, a
    jr c, .done
    inc e
    jr .again
.done:
    ld a, e
    and a
    ret nz
    inc e
    ret
