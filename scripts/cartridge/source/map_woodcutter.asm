; The woodcutter of the port: Bram teaches to cut, once his blade is sharp again.
woodcutter_cells:
    row MMMMMM
    row bb_tbb
    row ______
    row _t__t_
    row ______
    row MMEMMM

woodcutter_warps:
    warp 5, 2, 5, 4, 12
    end_of_list

woodcutter_things:
    thing 2, 3, PIC_DAD, DOWN, 0, NONE, STAYS, woodcutter_script
    end_of_list

woodcutter_script:
    if_set GOT_CUT, .again
    if_item STONE, .thanks
    set_flag ASKED_STONE
    say "BRAM: MY BLADE IS", "AS BLUNT AS BREAD."
    say "AND BLUNT IT STAYS", "WITHOUT A STONE."
    say "THE LAKE'S HERMIT", "HAS A WHETSTONE!"
    stop
.thanks:
    take_item STONE
    set_flag STONE_BROUGHT
    say "BRAM: ALL THE WAY?", "HEAR THE BLADE!"
    say "LISTEN TO IT SING.", "NOW IT CUTS AIR."
    give_item CUT_BOOK
    set_flag GOT_CUT
    say "TAKE MY BOOK. IT", "TEACHES TO CUT."
    say "PAGE ONE: HOLD IT", "BY THE HANDLE."
    stop
.again:
    say "START, BAG, BOOK:", "TEACH A FRIEND."
    say "THEN FACE THORNS:", "START, PARTY, CUT."
    stop
