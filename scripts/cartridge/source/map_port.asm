; Port Lantern: the third hall behind thorns, the woodcutter, and the boat to the isle.
port_cells:
    row TTTTTTTT,TTTTTTT
    row T.......,......T
    row T.(RR)..,.(RRR)T
    row T.wKDw..,.wWDWwT
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
    warp 3, 12, 93, 4, 2
    end_of_list

port_things:
    thing 10, 6, PIC_SHRUB, DOWN, 0, 0, REGROWS, shrub
    thing 11, 10, PIC_GUARD, DOWN, 0, NONE, STAYS, sailor
    thing 5, 12, SIGN, DOWN, 0, NONE, STAYS, port_sign
    end_of_list

shrub:
    say "THORNS, THICK AS", "ROPE. CUT THEM?"
    stop
sailor:
    if_clear BEAT_LEADER3, .later
    take_control
    say "SAILOR: I HEARD", "ALL THREE BELLS!"
    say "SEVEN YEARS I HAVE", "WAITED FOR THEM."
    say "THE WATER IS DEEP", "AND OLD, THEY SAY."
    say "BUT THE ISLE IS", "OLDER. AND DARKER."
    ask "SAIL TO", "GULL ISLE?", .later
    go_to 94, 4, 1
    pause 20
    walk RIGHT, 8
    pause 100
    walk LEFT, 5
    pause 90
    go_to 8, 13, 8
    say "SAILOR: GULL ISLE.", "MIND THE STAIRS!"
    stop
.later:
    say "RING ALL BELLS AND", "I'LL SAIL YOU."
    stop
port_sign:
    say "PORT LANTERN", "LIGHT AT THE END"
    stop
