; Scripts that take the buttons away: the game waits, walks the player, goes elsewhere.

scene_frame:                ; a script has more to say: after its pause, after its steps
    ld hl, wPause
    ld a, [hl]
    and a
    jr z, .walk
    dec [hl]
    ret
.walk:
    ld hl, wAutoSteps
    ld a, [hl]
    and a
    jr z, .arrived
    dec [hl]
    call auto_direction
    call set_out
    ld a, [wWalkCounter]    ; somebody stands in the way: the walk is over
    and a
    ret nz
    ld [wAutoSteps], a
.arrived:
    ld hl, wStatus5
    res 7, [hl]
    jp run_script

auto_direction:             ; b = the way the script walks, c = its bit
    ld a, [wFacing]
    ld b, a
    ld c, 4
    and a
    ret z
    ld c, 8
    cp UP
    ret z
    ld c, 2
    cp LEFT
    ret z
    dec c
    ret

word_control:
    ld a, 1
    ld [wControl], a
    call settle_keys
    jp script_next

word_walk:
    ld a, [de]
    inc de
    ld [wFacing], a
    ld a, [de]
    inc de
    ld [wAutoSteps], a
    ld hl, wStatus5
    set 7, [hl]
    jp script_wait

word_pause:
    ld a, [de]
    inc de
    ld [wPause], a
    jp script_wait

word_go:
    ld a, [de]
    inc de
    ld l, a
    ld a, [de]
    inc de
    ld b, a
    ld a, [de]
    inc de
    ld c, a
    call script_wait
    ld a, l
warp_by_script:             ; as enter_map
    ld hl, wStatus3
    set WARP_BY_SCRIPT, [hl]
    jp enter_map

word_secret:                ; told for the first time, it is drawn: two numbers from 1 to 3
    ld a, [de]
    inc de
    push de
    push af
    call draw_secret
    pop af
    pop de
    add a, low(wSecret)
    ld c, a
    ld b, high(wSecret)
    ld a, [bc]
    dec a
    add a, a
    add a, e
    ld e, a
    jp nc, script_jump
    inc d
    jp script_jump

draw_secret:                ; one of nine pairs; two numbers in a row would have too much in common
    ld a, [wSecret]
    and a
    ret nz
    call random
.nine:
    sub 9
    jr nc, .nine
    add a, 9
    ld c, 0
.three:
    inc c
    sub 3
    jr nc, .three
    add a, 4
    ld hl, wSecret
    ld [hl], c
    inc hl
    ld [hl], a
    ret
