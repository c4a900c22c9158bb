; Gull Isle: the dark lighthouse, its keeper, a grotto, and the boat home.
isle_cells:
    row ~~~~~~~~~~~~~~~~
    row ~~TTTTTTTT(RRR)~
    row ~T.(RR)..TwWWWw~
    row ~T.wDWw..TwKDKw~
    row ~T..,,...TY.,.Y~
    row ~T...,.....,,..~
    row ~T.g.,,,,,,,,.f~
    row ~T.g....,..T...~
    row ~~.gg...,.TTXXX~
    row ~~.gg.f.,..TXOX~
    row ~T......,,,,,,.~
    row ~T.(RR).,...gg.~
    row ~T.wKDw.,...gg.~
    row ~T...,,,,..ff..~
    row ~TTTTTT=p=TTTTT~
    row ~~~~~~~~p~~~~~~~

isle_warps:
    warp 3, 4, 167, 4, 2
    warp 3, 12, 142, 5, 4
    warp 9, 13, 165, 12, 12
    warp 12, 5, 171, 4, 3
    end_of_list

isle_things:
    thing 15, 8, PIC_GUARD, UP, 0, NONE, STAYS, boatman
    thing 13, 11, PIC_KID_LEFT, LEFT, 3, BEAT_SAL, STAYS, sal_script
    thing 10, 13, PIC_KID, DOWN, 0, GOT_PUDDLO, GOES, diver
    thing 8, 2, PIC_WOMAN, DOWN, 0, NONE, STAYS, fisher
    thing 5, 6, PIC_KID, DOWN, 0, NONE, STAYS, borrower
    thing 4, 12, PIC_GATE, DOWN, 0, DOOR_OPEN, GOES, tower_door
    end_of_list

boatman:                    ; whoever brings the light shows it to the keeper first
    if_clear GOT_LAMP, .sails
    if_set LAMP_SHOWN, .sails
    say "A LIGHT! SHOW IT", "TO THE KEEPER."
    stop
.sails:
    ask "SAIL HOME", "TO HEARTH?", .no
    take_control
    go_to 94, 4, 10
    pause 20
    walk LEFT, 8
    pause 100
    walk RIGHT, 5
    pause 90
    go_to 0, 11, 7
    say "SAILOR: HEARTH.", "FARE YOU WELL!"
    say "DID YOU SEE HOW IT", "LIT THE WAVES?"
    stop
.no:
    say "THE SEA CAN WAIT."
    stop
sal_script:
    if_set BEAT_SAL, .again
    say "SAL: THE GULLS AND", "I SHARE NOTHING!"
    say "WELL. A FIGHT, I", "MIGHT SHARE."
    say "NOT EVEN A CHIP.", "NOT EVEN A WORD."
    fight SAL
    set_flag BEAT_SAL
    say "SAL: TAKE A CHIP,", "THEN."
    say "THE FISHER HAS TOO", "MANY FRIENDS. ASK!"
    stop
.again:
    say "SAL: THEY STEAL", "LIKE GULLS."
    stop
diver:
    say "TOO DEEP FOR DRY", "FEET. HAVE A FISH?"
    stop
fisher:
    if_set GOT_PUDDLO, .again
    if_clear SLEPT_ISLE, .wet
    give_creature PUDDLO, 14
    set_flag GOT_PUDDLO
    say "THIS PUDDLO BIT MY", "HOOK. IT'S YOURS."
    say "IT BITES ONLY WHAT", "IT LOVES. SO, ALL."
    stop
.wet:
    say "YOU ARE ALL WET.", "GO AND LIE DOWN,"
    say "THEN COME BACK.", "I HAVE SOMEBODY."
    stop
.again:
    say "THE LIGHT IS OUT.", "THE FISH SLEEP."
    stop
borrower:                   ; has the key whenever it was found and is not in the bag
    if_item KEY, .takes
    if_set GOT_KEY, .gives
    say "I LOVE OLD IRON,", "THE RUSTIER..."
    stop
.takes:
    take_item KEY
    say "OH, RUST! LET ME", "HOLD IT A WHILE."
    stop
.gives:
    give_item KEY
    say "HERE. I COUNTED", "EVERY FLAKE."
    stop
tower_door:
    if_item KEY, .opens
    say "THE LIGHTHOUSE IS", "LOCKED."
    stop
.opens:
    set_flag DOOR_OPEN
    say "THE KEY TURNS. THE", "DOOR STANDS OPEN."
    say "INSIDE IT IS DARK", "AND COLD."
    stop

keeper_cells:
    row MMMMMM
    row bbb_tB
    row ______
    row _t____
    row ______
    row MMEMMM

keeper_warps:
    warp 5, 2, 8, 4, 4
    end_of_list

keeper_things:
    thing 2, 3, PIC_ELDER, DOWN, 0, NONE, STAYS, keeper_script
    end_of_list

; Which of the three stairs lead up is drawn when it is told first; it can be asked for again.
keeper_script:
    if_set GOT_LAMP, .thanks
    if_set GOT_KEY, .way
    say "KEEPER: I LOST MY", "KEY IN THE GROTTO."
    stop
.way:
    set_flag HEARD_WAY
    say "KEEPER: MY KEY! GO", "UP FOR ME. LISTEN:"
    tell_secret 0, .first1, .first2, .first3
.first1:
    say "KEEPER: THE LEFT", "STAIRS, TO BEGIN."
    tell_secret 1, .then1, .then2, .then3
.first2:
    say "KEEPER: THE MIDDLE", "STAIRS, TO BEGIN."
    tell_secret 1, .then1, .then2, .then3
.first3:
    say "KEEPER: THE RIGHT", "STAIRS, TO BEGIN."
    tell_secret 1, .then1, .then2, .then3
.then1:
    say "ABOVE, THE LEFT", "ONES. OTHERS LIE."
    stop
.then2:
    say "ABOVE, THE MIDDLE", "ONES. OTHERS LIE."
    stop
.then3:
    say "ABOVE, THE RIGHT", "ONES. OTHERS LIE."
    stop
.thanks:
    set_flag LAMP_SHOWN
    say "KEEPER: IT SHINES!", "SHOW IT TO HEARTH."
    say "ALL THESE YEARS IN", "THE DARK. NO MORE."
    stop
