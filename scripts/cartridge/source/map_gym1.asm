; The hall of stone, first bell.
gym1_cells:
    row MMMMMMM
    row YcccccY
    row ccccccc
    row XXcccXX
    row ccccccc
    row cXXcXXc
    row ccccccc
    row MMMEMMM

gym1_warps:
    warp 7, 3, 2, 4, 5
    end_of_list

gym1_things:
    thing 1, 3, PIC_LEADER, DOWN, 2, BEAT_LEADER1, STAYS, leader1_script
    thing 4, 6, PIC_KID_LEFT, LEFT, 4, BEAT_PUPIL1, STAYS, pupil1_script
    end_of_list

pupil1_script:
    if_set BEAT_PUPIL1, .again
    say "PUPIL: FIRST ME,", "THEN MASTER FLINT!"
    fight PUPIL1
    set_flag BEAT_PUPIL1
    say "PUPIL: CRACKED", "LIKE A PEBBLE..."
    say "GO ON, HE HEARD IT", "ALL. HE IS SMILING"
    stop
.again:
    say "PUPIL: HE IS HARD", "BUT FAIR."
    stop
leader1_script:
    if_set BEAT_LEADER1, .again
    say "FLINT: SHOW ME HOW", "SOLID YOU ARE!"
    say "I WAS A BOULDER", "WHEN I WAS YOUNG."
    fight LEADER1
    give_badge 1
    set_flag BEAT_LEADER1
    give_item TONIC
    set_flag GOT_TONIC
    heal_party
    say "THE STONE BELL", "RINGS FOR YOU!"
    say "ITS SISTERS ARE OF", "WATER AND SPARKS."
    say "RING ALL THREE AND", "THE SEA IS YOURS."
    say "FLINT: A TONIC FOR", "THE ROAD EAST."
    say "IT TASTES OF ROCKS", "BUT IT HELPS."
    stop
.again:
    say "FLINT: STAND FIRM", "OUT THERE."
    stop
