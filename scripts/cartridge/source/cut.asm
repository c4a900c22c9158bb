; Cut: learnt from its book, then used before thorns. Shrubs grow again as soon as one comes back.

learn_cut:                  ; the chosen one, if it can; it has at most one move before
    ld a, [wChosenSlot]
    ld c, a
    ld b, 0
    ld hl, wKinds
    add hl, bc
    ld b, [hl]
    ld hl, cutters
.able:
    ld a, [hl+]
    cp NONE
    jr z, .unable
    cp b
    jr nz, .able
    call knows_cut
    jr z, .known
    ld [hl], CUT
    ld bc, MON_PP - MON_MOVES
    add hl, bc
    ld [hl], CUT_PP
    ld hl, cut_learnt
    jp start_text_script
.unable:
    ld hl, cut_not_for_this
    jp start_text_script
.known:
    ld hl, cut_known
    jp start_text_script

cutters:
    db LUMPKIN, GRUMBO, NONE

cut_learnt:
    say "A SWISH, A SNIP:", "IT LEARNED TO CUT!"
    stop
cut_known:
    say "IT KNOWS THE BOOK", "BY HEART ALREADY."
    stop
cut_not_for_this:
    say "IT CANNOT HOLD A", "BLADE, POOR THING."
    stop

use_cut:
    call aim
    call find_object
    jr nc, .nothing
    ld bc, O_PICTURE
    add hl, bc
    ld a, [hl]
    cp PIC_SHRUB
    ld hl, cut_shrub
    jp z, start_text_script
.nothing:
    ld hl, cut_nothing
    jp start_text_script

cut_shrub:
    take_control
    pause 24
    cut_ahead
    pause 12
    say "THE THORNS FALL.", "MIND YOUR FEET!"
    stop
cut_nothing:
    say "THERE IS NOTHING", "TO CUT HERE."
    stop

word_cut:
    push de
    call aim
    call find_object
    jr nc, .gone
    ld bc, O_FLAG
    add hl, bc
    ld a, [hl]
    call bit_mask
    ld hl, wCutHere
    or [hl]
    ld [hl], a
.gone:
    call note_ahead
    pop de
    jp script_next
