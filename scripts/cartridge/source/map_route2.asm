; The second road: a pond, a ledge, grass that cannot be avoided.
route2_cells:
    row TTTTTTT,TTTT
    row T......,...T
    row T.ggg..,.f.T
    row TTTT.gggggTT
    row T~~T.gggggTT
    row T~~T.TvvvvvT
    row T..T..gggg.T
    row T.f...gggg.T
    row T..S..,....T
    row TTTTTT,TTTTT

route2_warps:
    end_of_list

route2_things:
    thing 1, 10, PIC_KID_LEFT, LEFT, 3, BEAT_OTIS, STAYS, otis_script
    thing 8, 3, SIGN, DOWN, 0, NONE, STAYS, route2_sign
    end_of_list

otis_script:
    if_set BEAT_OTIS, .again
    say "OTIS: HANDS UP!", "FEATHERS UP!"
    fight OTIS
    set_flag BEAT_OTIS
    say "OTIS: OUR FEATHERS", "ARE RUFFLED."
    stop
.again:
    say "OTIS: THE MASON'S", "HALL IS UP NORTH."
    stop
route2_sign:
    say "STONEWICK ROAD", "MIND THE GRASS"
    stop
