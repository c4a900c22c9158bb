; Millbrook: a bed, a letter to carry, a second friend in the cottage, the gate to the summit.
millbrook_cells:
    row TTTTTTTT,TTTTTTT
    row T.......,......T
    row T.(RR)..,.(RRR)T
    row T.wKDw..,.wDWWwT
    row T...,,,,,,,....T
    row ,,,,,,,,,......T
    row T..f....,~~~~f.T
    row T=====..,~~~~..T
    row T.....f.,....S.T
    row T.gg....,......T
    row T.gg....,.f....T
    row TTTTTTTT,TTTTTTT

millbrook_warps:
    warp 3, 4, 41, 4, 3
    warp 3, 11, 44, 4, 2
    end_of_list

millbrook_things:
    thing 0, 8, PIC_GUARD, DOWN, 0, GOT_FRIEND, GOES, north_guard
    thing 5, 1, PIC_GUARD, DOWN, 0, SLEPT_MILL, GOES, summit_guard
    thing 8, 7, PIC_WOMAN, DOWN, 0, NONE, STAYS, miller
    thing 8, 13, SIGN, DOWN, 0, NONE, STAYS, millbrook_sign
    end_of_list

north_guard:
    say "NOT WITH ONE ONLY!", "ASK IN THE COTTAGE"
    say "WHO WOULD TRAVEL", "WITH YOU."
    stop
summit_guard:
    say "THE SUMMIT IS ONLY", "FOR THREE BELLS,"
    say "A BLESSING, AND A", "GOOD NIGHT'S SLEEP"
    stop
miller:
    if_set GOT_LETTER, .later
    set_flag GOT_LETTER
    say "THIS LETTER IS FOR", "THE NORTHERN MASON"
    stop
.later:
    say "THE WHEEL TURNS,", "THE FLOUR FALLS."
    stop
millbrook_sign:
    say "MILLBROOK", "HEAR THE WATER"
    stop

cottage_cells:
    row MMMMMM
    row bbtt_B
    row ______
    row ____t_
    row ______
    row MMEMMM

cottage_warps:
    warp 5, 2, 1, 4, 11
    end_of_list

cottage_things:
    thing 2, 3, PIC_WOMAN, DOWN, 0, NONE, STAYS, cottager
    end_of_list

cottager:
    if_set GOT_FRIEND, .again
    if_clear GOT_LETTER, .later
    give_creature FLAPJAY, 6
    set_flag GOT_FRIEND
    say "THIS FLAPJAY LOVES", "TO TRAVEL. GO ON!"
    stop
.again:
    say "THE SKY IS WIDE,", "ISN'T IT?"
    stop
.later:
    say "THE MILLER LOOKS", "FOR A MESSENGER."
    stop
