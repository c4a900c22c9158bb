; The town of Hearth: a fenced yard with two houses, the meadow behind it, the pier.
town_cells:
    row TTTTTTT,TTTTTTTT
    row T..f...,...f...T
    row T.ggg..,..(RR).T
    row T.ggg..,..wWWw.T
    row T......,.......T
    row T======,=======T
    row T.=(RR),(RR)=f.T
    row T.=wWDw,wDWw=..T
    row Tf=.,,,,,,,.=..T
    row T.=TT..,.fST=.fT
    row T======p=======T
    row ~~~~~~~p~~~~~~~~
    row ~~~~~~~~~~~~~~~~
    row ~~~~~~~~~~~~~~~~

town_warps:
    warp 7, 5, 37, 4, 2
    warp 7, 9, 40, 5, 3
    end_of_list

town_things:
    thing 5, 7, PIC_GUARD, DOWN, 0, GOT_CHARM, GOES, town_guard
    thing 3, 8, PIC_WOMAN, DOWN, 0, NONE, STAYS, neighbour
    thing 9, 10, SIGN, DOWN, 0, NONE, STAYS, town_sign
    end_of_list

town_guard:
    say "NOBODY GOES NORTH", "WITHOUT A FRIEND."
    say "ASK THE ELDER FOR", "AN EGG. AND LUCK!"
    stop
neighbour:
    if_set GOT_MAP, .again
    set_flag GOT_MAP
    say "TAKE MY MAP, DEAR.", "THE BELLS ARE FAR."
    stop
.again:
    say "NORTH, THEN EAST,", "THEN ALL THE WAY!"
    stop
town_sign:
    say "HEARTH", "WHERE TRIPS BEGIN"
    stop
