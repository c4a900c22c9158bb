; People and things. An object is 8 bytes: y, x, picture, direction + 16 * cells watched, flag,
; STAYS or another kind, script.
O_PICTURE equ 2
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
    jr z, .told             ; STAYS
    cp REGROWS
    jr z, .shrub
    cp COMES
    ld a, c
    jr z, .comes
    call test_flag
    jr .told
.comes:
    call test_flag
    jr nz, .come
    inc a                   ; not yet
    jr .told
.come:
    xor a
    jr .told
.shrub:
    ld a, c
    call bit_mask
    ld hl, wCutHere
    and [hl]
.told:
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
