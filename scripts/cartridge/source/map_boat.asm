; The boat between the port, the isle and Hearth. One only walks its deck while it sails.
boat_cells:
    row ~~~~~~~~~~~~
    row ~~~~~~~~~~~~
    row ~==========~
    row =pppppppppp=
    row =pppppppppp=
    row =pppppppppp=
    row ~==========~
    row ~~~~~~~~~~~~

boat_warps:
    end_of_list

boat_things:
    thing 3, 10, PIC_GUARD, DOWN, 0, NONE, STAYS, boat_sailor
    end_of_list

boat_sailor:
    say "SAILOR: LOOK OUT", "FOR THE GULLS."
    stop
