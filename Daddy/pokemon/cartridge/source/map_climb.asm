; The climb: three caves between the watch and the summit.
climb1_cells:
    row XXXXXXXXXXXXXXXXXXXX
    row XXXXXXXXXXXXXXXX::OX
    row XXXXXXXXXXXXXXXXX:XX
    row XX::::::::::::::::XX
    row XX:XXXXXXXXXXXXXXXXX
    row XX::::::::::::::::XX
    row XXXXXXXXXXXXXXXXX:XX
    row X::::::::::::::::::X
    row XXXXX:XXXXXXXXXXXXXX
    row X::::::::::::X:::::X
    row X::XXXXXXXXX:X::XXXX
    row X::::::::::::::::::X
    row XXX::XXXXXXXXXXX:::X
    row XXXOXXXXXXXXXXXXXXXX

climb1_warps:
    warp 13, 3, 33, 3, 5
    warp 1, 18, 194, 12, 1
    end_of_list

climb1_things:
    thing 1, 16, PIC_RIVAL_LEFT + MIRROR, RIGHT, 1, BEAT_RIVAL3, STAYS, rival_at_climb
    end_of_list

rival_at_climb:
    if_set BEAT_RIVAL3, .again
    say "PIP: WHOSE LIGHT", "IS THAT? YOURS?!"
    fight RIVAL3
    set_flag BEAT_RIVAL3
    say "PIP: GO ON THEN.", "I HAVE THE SNACKS."
    stop
.again:
    say "PIP: IT IS DARK", "WITHOUT YOU."
    stop

climb2_cells:
    row XXXXXXXXXXXXXXXXXXXX
    row XXX:::::XXXXXXXXXOXX
    row XXX:XXX:XXXXXXXXX:XX
    row X:::X:::::XXXXXX:::X
    row X:XXX:XXX:XXXXXX:X:X
    row X:::::XXX::::::::X:X
    row XXXX:XXXXXXXXXXXXX:X
    row X:::::::::::::::::XX
    row X:XXXXXXXXXXXXXXXXXX
    row X::::::::::::::::::X
    row XXXXXXXXXXXXXXXXXX:X
    row X::::::::::::::::::X
    row X::XXXXXXXXXXXXXXXXX
    row XOXXXXXXXXXXXXXXXXXX

climb2_warps:
    warp 13, 1, 108, 1, 17
    warp 1, 17, 198, 12, 18
    end_of_list

climb2_things:
    thing 3, 17, PIC_GUARD, DOWN, 0, BEAT_WARDEN, GOES, warden_script
    end_of_list

warden_script:
    say "WARDEN: ONE LAST", "LOOK AT YOUR TEAM."
    fight WARDEN
    set_flag BEAT_WARDEN
    heal_party
    say "WARDEN: A FINE ONE", "INDEED. HAVE SOUP."
    stop

climb3_cells:
    row XXXXXXXXXXXXXXXXXXXX
    row X:::::::::::::::::OX
    row X:XXXXXXXXXXXXXXXXXX
    row X:::::::::::::::::XX
    row XXXXXXX::XXXXXXXX:XX
    row XX::::::::::::::::XX
    row XX:XXXX::XXXXXXXXXXX
    row XX::::::::::::::::XX
    row XXXXX::XXXXXXXXXX:XX
    row X:::::::::::::::::XX
    row X:XXXXXXXXXXXXXXXXXX
    row X::::::::::::::::::X
    row XXXXXXXXXXXXXXXXXX:X
    row XXXXXXXXXXXXXXXXXXOX

climb3_warps:
    warp 13, 18, 194, 2, 17
    warp 1, 18, 120, 5, 2
    end_of_list

climb3_things:
    thing 4, 8, PIC_ELDER, LEFT, 1, BEAT_SAGE, STAYS, sage_script
    end_of_list

sage_script:
    if_set BEAT_SAGE, .again
    say "SAGE: I COUNT THE", "STEPS OF GUESTS."
    fight SAGE
    set_flag BEAT_SAGE
    say "SAGE: NOT MANY ARE", "LEFT. GO ON."
    stop
.again:
    say "SAGE: THE TOP IS", "NEAR AND WINDY."
    stop
