; Lakemere: the second hall, the hermit, and the rival at the cave's mouth.
lakemere_cells:
    row XXXXTTTTTTTTTTTT
    row XXXX...(RR)....T
    row XOXX...wDWw..f.T
    row X,,,,,,,,,,....T
    row XTTTT.f.,.~~~~~T
    row X.(RRR).,.~~~~~T
    row X.wKDKw.,.~~~~~T
    row X.Y.,.Y.,.~~~~~T
    row X...,,,,,,,,,..T
    row X.......,.(RR).T
    row X.ggg...,.wKDw.T
    row X.ggg.S.,...,..T
    row X.......,,,,,..T
    row TTTTTTTT,TTTTTTT

lakemere_warps:
    warp 2, 1, 59, 2, 14
    warp 2, 8, 88, 4, 2
    warp 6, 4, 65, 7, 3
    warp 10, 12, 64, 4, 3
    end_of_list

lakemere_things:
    thing 4, 5, PIC_RIVAL, UP, 3, BEAT_RIVAL2, STAYS, rival_at_lake
    thing 7, 4, PIC_WOMAN, DOWN, 0, SLEPT_LAKE, GOES, hall_guard
    thing 13, 8, PIC_GUARD, DOWN, 0, GOT_PASS, GOES, south_guard
    thing 11, 6, SIGN, DOWN, 0, NONE, STAYS, lakemere_sign
    end_of_list

rival_at_lake:
    if_set BEAT_RIVAL2, .again
    say "PIP: YOU TOOK YOUR", "TIME IN THERE!"
    say "I FOUND THE SHORT", "WAY. IT WAS LONG."
    say "AND NOW I'LL WIN.", "I WIN ON SUNDAYS."
    fight RIVAL2
    set_flag BEAT_RIVAL2
    say "PIP: ARGH. SEE YOU", "AT THE SUMMIT."
    say "IT IS NOT SUNDAY,", "IS IT?"
    stop
.again:
    say "PIP: THE LAKE IS", "NICE. GO AWAY."
    stop
south_guard:
    say "NO PASS, NO PORT.", "ASK THE HERMIT."
    stop
lakemere_sign:
    say "LAKEMERE", "STILL AND DEEP"
    stop

hermit_cells:
    row MMMMMM
    row bbb_bB
    row ______
    row _t____
    row ______
    row MMEMMM

hermit_warps:
    warp 5, 2, 3, 3, 8
    end_of_list

hermit_things:
    thing 2, 3, PIC_ELDER, DOWN, 0, NONE, STAYS, hermit_script
    end_of_list

hermit_script:
    if_set GOT_PASS, .later
    set_flag MET_HERMIT
    say "HERMIT: A GUEST?", "THROUGH THE CAVE?"
    say "NOBODY CAME SINCE", "THE GREAT RAIN."
    say "SIT. NO, NOT ON", "THE BOOKS."
    if_clear BEAT_LEADER2, .again
    give_item PASS
    set_flag GOT_PASS
    say "TAKE MY PASS. I'M", "STAYING HERE."
    say "THE GUARD SLEEPS", "BUT HE WILL LOOK."
    stop
.later:
    if_set GOT_STONE, .again
    if_clear ASKED_STONE, .again
    give_item STONE
    set_flag GOT_STONE
    say "FOR BRAM? TAKE MY", "OLD WHETSTONE."
    say "IT SHARPENED MY", "WIT FOR YEARS."
    stop
.again:
    say "HERMIT: BOOKS ARE", "QUIET COMPANY."
    stop
