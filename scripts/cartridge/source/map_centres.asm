; Rest houses: one plan, five doors. The nurse stands behind a counter. By the sea she asks first and
; takes her time, and there is a machine to store friends away.
millbrook_centre_cells:
stonewick_centre_cells:
lakemere_centre_cells:
port_centre_cells:
isle_centre_cells:
    row MMMMMMMM
    row b_HH___b
    row __CCCC__
    row ________
    row ________
    row MMMEMMMM

millbrook_centre_warps:
    warp 5, 3, 1, 4, 4
    end_of_list
stonewick_centre_warps:
    warp 5, 3, 2, 10, 3
    end_of_list
lakemere_centre_warps:
    warp 5, 3, 3, 11, 12
    end_of_list
port_centre_warps:
    warp 5, 3, 5, 4, 4
    end_of_list
isle_centre_warps:
    warp 5, 3, 8, 13, 5
    end_of_list

millbrook_centre_things:
    thing 1, 4, PIC_NURSE, DOWN, 0, NONE, STAYS, millbrook_nurse
    end_of_list
stonewick_centre_things:
    thing 1, 4, PIC_NURSE, DOWN, 0, NONE, STAYS, stonewick_nurse
    end_of_list
lakemere_centre_things:
    thing 1, 4, PIC_NURSE, DOWN, 0, NONE, STAYS, lakemere_nurse
    end_of_list
isle_centre_things:
    thing 1, 4, PIC_NURSE, DOWN, 0, NONE, STAYS, isle_nurse
    thing 1, 6, PIC_MACHINE, DOWN, 0, NONE, STAYS, machine
    end_of_list
port_centre_things:
    thing 1, 4, PIC_NURSE, DOWN, 0, NONE, STAYS, careful_nurse
    thing 1, 6, PIC_MACHINE, DOWN, 0, NONE, STAYS, machine
    end_of_list

millbrook_nurse:            ; the watch wants whoever goes up to have slept
    if_clear BLESSED, nurse
    set_flag SLEPT_MILL
    if_set SLEPT_MILL, nurse
stonewick_nurse:
    set_flag SLEPT_STONE
    if_set SLEPT_STONE, nurse
lakemere_nurse:
    set_flag SLEPT_LAKE
nurse:
    heal_party
    rest_here
    say "YOUR FRIENDS LOOK", "TIRED. ALL BETTER!"
    stop
isle_nurse:
    ask "DO THEY WANT", "TO REST?", careful_nurse.no
    set_flag SLEPT_ISLE
    if_set SLEPT_ISLE, careful_nurse.rest
careful_nurse:
    ask "DO THEY WANT", "TO REST?", .no
.rest:
    take_control
    rest_here
    say "THEN LIE DOWN HERE", "AND BREATHE..."
    pause 100
    heal_party
    say "...AND UP AGAIN.", "ALL BETTER!"
    stop
.no:
    say "ANOTHER TIME."
    stop
