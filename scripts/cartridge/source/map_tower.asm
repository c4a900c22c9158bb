; The lighthouse: on two floors one of three stairs leads up and the others down again. The keeper says
; which; nobody can see it.
tower1_cells:
tower2_cells:
    row MMDMDMDMM
    row YcccccccY
    row ccccccccc
    row cYcYcYcYc
    row ccccccccc
    row ccccccccc
    row MMMMEMMMM
tower3_cells:
    row MMWMWMWMM
    row YcccccccY
    row ccccccccc
    row ccccccccc
    row ccccccccc
    row ccccccccc
    row MMMMEMMMM

tower1_warps:
    warp 6, 4, 8, 5, 12
    end_of_list
tower2_warps:
    warp 6, 4, 142, 2, 4
    end_of_list
tower3_warps:
    warp 6, 4, 142, 4, 4
    end_of_list

forks:
    db 142, 5, 4            ; where one falls
    fork 142, 0, 2, 0, 1, 143, 5, 4
    fork 142, 0, 4, 0, 2, 143, 5, 4
    fork 142, 0, 6, 0, 3, 143, 5, 4
    fork 143, 0, 2, 1, 1, 144, 5, 4
    fork 143, 0, 4, 1, 2, 144, 5, 4
    fork 143, 0, 6, 1, 3, 144, 5, 4
    end_of_list

tower1_things:
tower2_things:
    end_of_list
tower3_things:
    thing 2, 4, PIC_LAMP, DOWN, 0, GOT_LAMP, GOES, lamp_script
    end_of_list

lamp_script:
    take_control
    say "THE LAMP IS COLD.", "YOU STRIKE A FIRE."
    say "ONCE. TWICE. THEN", "A SPARK HOLDS."
    pause 90
    give_item LAMP
    set_flag GOT_LAMP
    say "IT BURNS! A PIECE", "OF IT COMES ALONG."
    say "FAR BELOW, A SHIP", "BLOWS ITS HORN."
    say "THEN ANOTHER ONE.", "THEN GULLS."
    stop
