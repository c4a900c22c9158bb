; The cave between the stone country and the lake.
cave_cells:
    row XXXXXXXXXXXXXXXX
    row X:::::XX::::::OX
    row X:::::XX:::::::X
    row X::X:::::::XX::X
    row X::XX:XX:::XX::X
    row X:::X:XX:::::::X
    row XX::::XXXXX:XXXX
    row XXXXXXXXXXX:XXXX
    row X::::::::::::::X
    row X::XX::XX::XX::X
    row X::XX::XX::XX::X
    row X::::::::::::::X
    row XXXX::XXXXXX:::X
    row X::::::XX::::::X
    row XO:::::XX:::::XX
    row XXXXXXXXXXXXXXXX

cave_warps:
    warp 14, 1, 14, 3, 13
    warp 1, 14, 3, 3, 1
    end_of_list

cave_things:
    thing 7, 11, PIC_GUARD, DOWN, 1, BEAT_DIGGER, GOES, digger_script
    thing 13, 13, PIC_ITEM, DOWN, 0, GOT_SHELL, GOES, shell_script
    end_of_list

digger_script:
    say "DIGGER: MY TUNNEL!", "MINE, MINE, MINE!"
    say "I WAS HERE FIRST.", "ASK ANY MOLE."
    fight DIGGER
    set_flag BEAT_DIGGER
    say "DIGGER: FINE. I'LL", "DIG ELSEWHERE."
    say "MY MAP SAYS THAT I", "AM NOT EVEN HERE."
    stop
shell_script:
    give_item SHELL
    set_flag GOT_SHELL
    say "AN OLD SHELL!", "IT HUMS A LITTLE."
    say "FAR AWAY, A TIDE.", "OR IS IT A SONG?"
    stop
