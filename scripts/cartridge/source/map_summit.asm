; The way to the summit, the champion, and the hall where all bells ring.
route22_cells:
    row XXXXXXXXXXXX
    row XXX(RRR)XXXX
    row XXXwKDKwXXXX
    row XXXY.,.YXXXX
    row X.ggT,Tgg..X
    row X.ggT,Tgg..,
    row X.ff.,,,,,,X
    row X..vvvvvvv.X
    row X.gggggggg.X
    row XXXXXXXXXXXX

route22_warps:
    warp 2, 5, 108, 12, 3
    end_of_list

route22_things:
    thing 5, 10, PIC_KID_LEFT + MIRROR, RIGHT, 1, BEAT_HALE, GOES, hale_script
    thing 5, 5, PIC_GUARD, DOWN, 0, PASSED_WATCH1, GOES, watch1
    thing 4, 5, PIC_GUARD, DOWN, 0, PASSED_WATCH2, GOES, watch2
    thing 3, 5, PIC_GUARD, DOWN, 0, PASSED_WATCH3, GOES, watch3
    thing 6, 5, PIC_SHRUB, DOWN, 0, 0, REGROWS, shrub
    end_of_list

hale_script:
    say "HALE: I TRAIN HERE", "UNTIL THEY LET ME."
    say "ONE DAY THEY WILL.", "SHOW ME HOW!"
    fight HALE
    set_flag BEAT_HALE
    say "HALE: YOU, THEY", "WILL LET UP."
    say "GREET THE THREE OF", "THEM FROM ME."
    say "THEY STAND ALL DAY", "AND NEVER SIT."
    stop
watch1:
    set_flag PASSED_WATCH1
    say "STONE AND WATER.", "I HEAR THEM. PASS."
    say "MY BROTHERS WATCH", "THE NEXT STEPS."
    stop
watch2:
    set_flag PASSED_WATCH2
    say "AND THE SPARK! GO", "UP, BELL RINGER."
    say "ONE MORE BROTHER,", "THEN THE CLIMB."
    stop
watch3:
    set_flag PASSED_WATCH3
    say "THE LIGHT OF GULL", "ISLE! UP YOU GO."
    say "MIND THE DARK. MY", "LAMP IS TOO SMALL."
    stop

summit_cells:
    row MMDMMM
    row YcccYY
    row cccccc
    row cccccc
    row cYccYc
    row cccccc
    row MMEMMM

summit_warps:
    warp 6, 2, 198, 1, 17
    warp 0, 2, 118, 4, 2
    end_of_list

summit_things:
    thing 1, 2, PIC_CHAMPION, DOWN, 1, BEAT_CHAMPION, GOES, champion_script
    end_of_list

champion_script:
    say "ODA: I HAVE WAITED", "A LONG TIME. COME!"
    say "SIT DOWN. NO, BOTH", "OF US STAND."
    say "THE BELLS SAID YOU", "WERE ON THE WAY."
    say "STONE, WATER AND", "SPARKS. AND LIGHT."
    say "SHOW ME WHAT RINGS", "IN YOU."
    fight CHAMPION
    set_flag BEAT_CHAMPION
    heal_party
    say "ODA: THE HALL IS", "YOURS. RING THEM!"
    say "NOBODY RANG THEM", "IN MY TIME."
    say "I KEPT THEM SILENT", "FOR SOMEBODY."
    say "PULL HARD. THE BIG", "ONE IS LAZY."
    stop

hall_cells:
    row MMMMMM
    row YccccY
    row cYcYcc
    row cccccc
    row cccccc
    row MMEMMM

hall_warps:
    warp 5, 2, 120, 1, 2
    end_of_list

hall_things:
    thing 2, 3, INVISIBLE, DOWN, 0, NONE, STAYS, great_bell
    end_of_list

great_bell:
    say "YOU RING THE GREAT", "BELL OF THE ISLE!"
    say "IT HUMS, AND THEN", "ALL THREE ANSWER."
    say "DOWN IN HEARTH DAD", "LOOKS UP."
    finish_game
