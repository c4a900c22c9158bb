; The elder's house: three eggs, of which one is enough, and a rival who wants to see it at once.
lab_cells:
    row MMMMMM
    row bb__bb
    row ______
    row __ttt_
    row ______
    row b____b
    row MMMEMM

lab_warps:
    warp 6, 3, 0, 8, 9
    end_of_list

lab_things:
    thing 3, 1, PIC_ELDER, DOWN, 0, NONE, STAYS, elder
    thing 3, 2, PIC_EGG, DOWN, 0, GOT_STARTER, GOES, egg
    thing 3, 4, PIC_EGG, DOWN, 0, GOT_STARTER, GOES, egg
    thing 3, 3, PIC_EGG, DOWN, 0, GOT_STARTER, GOES, egg
    thing 5, 4, PIC_RIVAL_LEFT, LEFT, 2, BEAT_RIVAL, STAYS, rival_at_lab
    end_of_list

elder:
    if_set BEAT_RIVAL, .gifts
    set_flag MET_ELDER
    say "ELDER: THREE EGGS.", "ONE IS FOR YOU!"
    stop
.gifts:
    set_flag MET_ELDER
    if_set GOT_CHARM, .bells
    if_clear GREETED_DAD, .home
    set_flag GOT_ALMANAC
    give_item ALMANAC
    say "ELDER: WELL DONE!", "HAVE THIS ALMANAC,"
    set_flag GOT_CHARM
    say "AND A CHARM. THE", "WILD TRUSTS IT."
    stop
.home:
    say "ELDER: YOUR DAD", "ASKED FOR YOU. GO!"
    stop
.bells:
    if_item LAMP, .light
    say "THREE BELLS SLEEP.", "WAKE THEM FOR US!"
    stop
.light:
    if_clear LAMP_SHOWN, .whose
    set_flag BLESSED
    say "ELDER: THE LIGHT", "OF THE ISLE! CLIMB"
    say "I HAD FORGOTTEN", "HOW WARM IT IS."
    say "THE WATCH WILL LET", "YOU UP NOW."
    say "BUT SLEEP FIRST,", "IN MILLBROOK."
    say "ODA IS UP THERE.", "SAY HELLO FOR ME."
    stop
.whose:
    say "ELDER: A LIGHT? GO", "TO ITS KEEPER."
    stop
egg:
    give_creature LUMPKIN, 5
    set_flag GOT_STARTER
    say "THE EGG HATCHES!", "LUMPKIN LIKES YOU."
    stop
rival_at_lab:
    if_clear GOT_STARTER, .waits
    if_set BEAT_RIVAL, .lost
    say "PIP: OH, YOURS IS", "OUT? LET'S PLAY!"
    fight RIVAL1
    set_flag BEAT_RIVAL
    say "PIP: HEY! NOT BAD", "FOR A BEGINNER."
    stop
.waits:
    say "PIP: WELL, TOUCH", "THE EGG ALREADY!"
    stop
.lost:
    say "PIP: I'LL BE FIRST", "AT THE NEXT BELL."
    stop
