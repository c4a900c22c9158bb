; The hall of sparks, third bell. One of the statues hides the lever of the gate.
gym3_cells:
    row MMMMMMMM
    row YccccccY
    row cccccccc
    row XXXXcXXX
    row cccccccc
    row cYcYcYcY
    row cccccccc
    row cccccccc
    row MMMEMMMM

gym3_warps:
    warp 8, 3, 5, 10, 3
    end_of_list

gym3_things:
    thing 1, 4, PIC_LEADER, DOWN, 1, BEAT_LEADER3, STAYS, leader3_script
    thing 3, 4, PIC_GATE, DOWN, 0, GATE_OPEN, GOES, gate
    thing 5, 5, INVISIBLE, DOWN, 0, NONE, STAYS, lever
    thing 5, 1, INVISIBLE, DOWN, 0, NONE, STAYS, no_lever
    thing 5, 3, INVISIBLE, DOWN, 0, NONE, STAYS, no_lever
    thing 5, 7, INVISIBLE, DOWN, 0, NONE, STAYS, no_lever
    thing 6, 7, PIC_KID_LEFT, LEFT, 7, BEAT_PUPIL3, STAYS, pupil3_script
    end_of_list

gate:
    say "A GATE. THE LEVER", "MUST BE NEAR."
    stop
lever:
    set_flag GATE_OPEN
    say "CLICK! SOMETHING", "SLIDES OPEN."
    stop
no_lever:
    say "JUST A STATUE."
    stop
pupil3_script:
    if_set BEAT_PUPIL3, .again
    say "PUPIL: DON'T TOUCH", "THE STATUES!"
    say "THEY BITE. WITH", "LIGHTNING."
    fight PUPIL3
    set_flag BEAT_PUPIL3
    say "PUPIL: OUCH. IT'S", "THE SECOND LAST."
    say "ONE OF THESE IS NO", "STATUE. SHH."
    stop
.again:
    say "PUPIL: MY HAIR IS", "STILL STANDING."
    stop
leader3_script:
    if_set BEAT_LEADER3, .again
    say "VOLTA: FEEL THAT", "HUM? IT'S FOR YOU."
    say "THE BELL AND I GO", "WAY BACK. BZZT."
    fight LEADER3
    give_badge 4
    set_flag BEAT_LEADER3
    say "THE SPARK BELL", "RINGS FOR YOU!"
    say "IT TINGLES, DOES", "IT NOT? IT SHOULD."
    say "A SAILOR WAITS FOR", "YOU AT THE PIER."
    stop
.again:
    say "VOLTA: THE SUMMIT", "WAITS. GO BY BOAT."
    stop
