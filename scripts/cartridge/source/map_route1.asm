; The first road: grass, two ledges, a girl who watches the path.
route1_cells:
    row TTTTT,TTTTTT
    row T....,gggg.T
    row T....,gggg.T
    row Tvvvv,.vvvvT
    row T..........T
    row T.gg...gg..T
    row T=v..vvvvv=T
    row T..........T
    row T..gggg..S.T
    row T.f..,...f.T
    row TTTTT,TTTTTT

route1_warps:
    end_of_list

route1_things:
    thing 4, 8, PIC_KID_LEFT, LEFT, 3, BEAT_LENA, STAYS, lena_script
    thing 8, 9, SIGN, DOWN, 0, NONE, STAYS, route1_sign
    end_of_list

lena_script:
    if_set BEAT_LENA, .again
    say "LENA: STOP! I SAW", "YOU. NOW WE PLAY."
    fight LENA
    set_flag BEAT_LENA
    say "LENA: MY SKITTER", "NEEDS A NAP NOW."
    stop
.again:
    say "LENA: JUMP DOWN", "THE LEDGES. FUN!"
    stop
route1_sign:
    say "NORTH: MILLBROOK", "SOUTH: HEARTH"
    stop
