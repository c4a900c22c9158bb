; What a map brings along: its things, signs, ways out, neighbours, and what lives in its grass.

load_objects:
    ld bc, 9
    call record_at
    call word_at
    ld de, wObjects
    ld b, 0
.next:
    ld a, [hl]
    inc a
    jr z, .done
    inc b
    push bc
    ld b, 8
    call copy_short
    pop bc
    jr .next
.done:
    ld a, b
    ld [wObjectCount], a
    ret

load_signs:                 ; where the real game has the places of signs
    ld hl, wObjects
    ld de, wSigns
    ld a, [wObjectCount]
    ld b, a
    ld c, 0
    and a
    jr z, .done
.next:
    push hl
    inc hl
    inc hl
    ld a, [hl-]
    dec hl
    cp SIGN
    jr nz, .other
    inc c
    ld a, [hl+]
    ld [de], a
    inc de
    ld a, [hl]
    ld [de], a
    inc de
.other:
    pop hl
    ld a, l
    add a, 8
    ld l, a
    dec b
    jr nz, .next
.done:
    ld a, c
    ld [wSignCount], a
    ret

load_warps:                 ; and write them down where the real game has them
    ld bc, 7
    call record_at
    call word_at
    ld a, l
    ld [wWarps], a
    ld a, h
    ld [wWarps + 1], a
    ld de, wWarpEntries
    ld b, 0
.next:
    ld a, [hl+]
    cp $FF
    jr z, .done
    ld [de], a
    inc de
    ld a, [hl+]
    ld [de], a
    inc de
    ld a, b
    ld [de], a
    inc de
    ld a, [hl+]
    ld [de], a
    inc de
    inc hl
    inc hl
    inc b
    jr .next
.done:
    ld a, b
    ld [wWarpCount], a
    ret

note_links:                 ; neighbours and what lives in the grass
    ld bc, 11
    call record_at
    ld de, wLinks
    ld b, 8
    call copy_short
    ld de, wGrass
    ld b, 4
    call copy_short
    ld a, [wGrass + 2]
    ld [wGrassRate], a
    ld hl, wLinks
    ld de, connection_bits
    ld bc, $0400
.next:
    ld a, [hl+]
    inc hl
    inc a
    jr z, .none
    ld a, [de]
    or c
    ld c, a
.none:
    inc de
    dec b
    jr nz, .next
    ld a, c
    ld [wConnections], a
    ret

connection_bits:
    db 4, 8, 2, 1
