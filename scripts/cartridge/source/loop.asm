; One frame: sleep until the vertical blank, work in the place of music, sleep until a certain line,
; read the buttons, act, place the sprites. Whatever the busy work, the game acts at the same time.
FIRST_LINE equ 60           ; of the screen that the game may act in

main:
    call wait_frame
    call read_buttons
    ld hl, frame_kinds
    ld a, [wMode]
    call jump_table
    call place_sprites
    jr main

frame_kinds:
    dw world_frame, text_frame, battle_frame, status_frame, title_frame, ending_frame, menu_frame

jump_table:                 ; go to entry a of the table at hl
    add a, a
    ld c, a
    ld b, 0
    add hl, bc
    ld a, [hl+]
    ld h, [hl]
    ld l, a
    jp hl

wait_frame:
    ld a, 1
    ldh [hVblank], a
.blank:
    halt
    nop
    ldh a, [hVblank]
    and a
    jr nz, .blank
    ld bc, BUSY_WORK
.busy:
    dec bc
    ld a, b
    or c
    jr nz, .busy
.line:
    halt
    nop
    ldh a, [hEarly]
    and a
    jr nz, .line
    ret

line_reached:               ; interrupt at FIRST_LINE
    push af
    xor a
    ldh [hEarly], a
    pop af
    reti

wait_frames:                ; a frames
    push af
    call wait_frame
    pop af
    dec a
    jr nz, wait_frames
    ret

read_buttons:               ; down up left right start select b a, high bit first
    ld a, $20
    ldh [P1], a
    ldh a, [P1]
    ldh a, [P1]
    cpl
    and $0F
    swap a
    ld b, a
    ld a, $10
    ldh [P1], a
    ldh a, [P1]
    ldh a, [P1]
    cpl
    and $0F
    or b
    ld b, a
    ld a, $30
    ldh [P1], a
    ldh a, [hRaw]
    cpl
    and b
    ld c, a                 ; those that were not down a frame ago
    ld a, b
    ldh [hRaw], a
    ld a, [wJoyIgnore]
    cpl
    ld d, a
    and c
    ldh [hPressed], a
    ld a, d
    and b
    ldh [hHeld], a
    ret
