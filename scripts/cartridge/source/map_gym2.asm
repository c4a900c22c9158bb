; The hall of water, second bell.
gym2_cells:
    row MMMMMMMM
    row Y~~cc~~Y
    row ~~~cc~~~
    row ~cccccc~
    row ~c~~~~c~
    row ~c~~~~c~
    row ~cccccc~
    row ~~~cc~~~
    row MMMEMMMM

gym2_warps:
    warp 8, 3, 3, 7, 4
    end_of_list

gym2_things:
    thing 1, 3, PIC_LEADER, DOWN, 2, BEAT_LEADER2, STAYS, leader2_script
    thing 3, 6, PIC_KID_LEFT, LEFT, 3, BEAT_PUPIL2, STAYS, pupil2_script
    end_of_list

pupil2_script:
    if_set BEAT_PUPIL2, .again
    say "PUPIL: CAREFUL,", "THE EDGE IS WET."
    say "THE POOL IS DEEPER", "THAN IT LOOKS."
    fight PUPIL2
    set_flag BEAT_PUPIL2
    say "PUPIL: I SLIPPED.", "HONESTLY."
    say "NERA SAW IT. NOW", "IT IS YOUR TURN."
    stop
.again:
    say "PUPIL: NERA NEVER", "SLIPS."
    stop
leader2_script:
    if_set BEAT_LEADER2, .again
    say "NERA: DEEP WATER", "MAKES NO NOISE."
    say "IT WAITS. IT KNOWS", "YOU WILL COME."
    fight LEADER2
    give_badge 2
    set_flag BEAT_LEADER2
    say "THE WATER BELL", "RINGS FOR YOU!"
    say "IT TELLS THE FISH", "WHO IS THE MASTER."
    say "GO SOUTH. THE SEA", "HAS A THIRD ONE."
    stop
.again:
    say "NERA: FOLLOW THE", "ROAD TO THE SEA."
    stop
