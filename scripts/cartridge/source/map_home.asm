; Home: the game begins beside the bed. Dad sends one off, and has a rest for whoever comes back.
home_cells:
    row MMMMMM
    row bb__tB
    row ______
    row _tt___
    row ______
    row MMEEMM

home_warps:
    warp 5, 2, 0, 8, 5
    warp 5, 3, 0, 8, 5
    end_of_list

home_things:
    thing 3, 5, PIC_DAD, DOWN, 0, NONE, STAYS, dad
    end_of_list

dad:
    if_set GOT_STARTER, .rest
    set_flag GREETED_DAD
    say "DAD: GOOD MORNING!", "THE ELDER CALLED."
    say "HER HOUSE IS RIGHT", "ACROSS OUR YARD."
    stop
.rest:
    set_flag GREETED_DAD
    heal_party
    rest_here
    say "DAD: SIT DOWN AND", "REST A WHILE."
    stop
