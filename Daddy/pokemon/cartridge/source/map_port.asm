; Port Lantern: the third hall behind thorns, and the ferry home.
port_cells:
    row TTTTTTTT,TTTTTTT
    row T.......,......T
    row T.(RR)..,.(RRR)T
    row T.wKDw..,.wWWWwT
    row T...,,,,,......T
    row T.......,.f.S..T
    row T.f.....,......T
    row T=====..,.=====T
    row T(RRR)=.,......T
    row TwKDKw=.,...gg.T
    row T..,....,...gg.T
    row T======.,,p====T
    row ~~~~~~~~~~p~~~~~
    row ~~~~~~~~~~~~~~~~

port_warps:
    warp 3, 4, 89, 4, 3
    warp 9, 3, 92, 7, 3
    warp 12, 10, 0, 11, 7
    end_of_list

port_things:
    thing 10, 6, PIC_SHRUB, DOWN, 0, SHRUB_CUT, GOES, shrub
    thing 11, 10, PIC_GUARD, DOWN, 0, BEAT_LEADER3, GOES, sailor
    thing 5, 12, INVISIBLE, DOWN, 0, NONE, STAYS, port_sign
    end_of_list

shrub:
    if_clear GOT_AXE, .thorns
    set_flag SHRUB_CUT
    say "CHOP! THE THORNS", "ARE GONE."
    stop
.thorns:
    say "THORNS, THICK AS", "ROPE. AN AXE..."
    stop
sailor:
    say "RING ALL BELLS AND", "I'LL SAIL YOU."
    stop
port_sign:
    say "PORT LANTERN", "LIGHT AT THE END"
    stop
