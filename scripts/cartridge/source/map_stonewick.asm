; Stonewick: the first hall. The road east opens for whoever rang its
; bell and brought the mason his letter.
stonewick_cells:
    row XXXXXXXXXXXXXXXX
    row X..............X
    row X..(RRR)...(R).X
    row X..wKDKw...wWw.X
    row X..Y.,.Y...f.f.X
    row X....,.........X
    row X....,....=====X
    row X....,,,,,,,,,,,
    row X.(RR).,..=====X
    row X.wDWw.,....ggTX
    row X..,,,,,....ggTX
    row XTTT...,...STTTX
    row XXXXXXX,XXXXXXXX

stonewick_warps:
    warp 3, 5, 54, 6, 3
    warp 9, 3, 58, 4, 3
    end_of_list

stonewick_things:
    thing 7, 13, PIC_GUARD, DOWN, 0, LETTER_BROUGHT, GOES, east_guard
    thing 4, 5, PIC_WOMAN, DOWN, 0, SLEPT_STONE, GOES, hall_guard
    thing 5, 11, PIC_ELDER, DOWN, 0, NONE, STAYS, mason
    thing 11, 11, SIGN, DOWN, 0, NONE, STAYS, stonewick_sign
    end_of_list

east_guard:
    say "FIRST RING OUR", "BELL OF STONE!"
    say "THEN HELP THE OLD", "MASON OUT."
    stop
hall_guard:
    say "THE HALL IS FOR", "THOSE WHO SLEPT."
    stop
mason:
    if_set LETTER_BROUGHT, .again
    if_clear GOT_LETTER, .again
    if_clear BEAT_LEADER1, .again
    set_flag LETTER_BROUGHT
    heal_party
    say "FOR ME? A LETTER!", "REST HERE A WHILE."
    say "FROM THE MILL! AND", "ONLY A YEAR LATE."
    say "A CAVE LIES EAST.", "MIND YOUR HEAD."
    stop
.again:
    say "STONE IS PATIENT.", "I AM NOT."
    stop
stonewick_sign:
    say "STONEWICK", "BUILT TO STAY"
    stop
