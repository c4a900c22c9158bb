; The third road, east to the cave.
route3_cells:
    row XXXXXXXXXXXXXXXX
    row XXX...ggg..XXXXX
    row X..T..ggg....OXX
    row X..T..ggg....,.X
    row X..Tvvvvv===.,.X
    row X..T.....T.=.,.X
    row ,,,,,,...T..,,.X
    row X..T.gg..T.vvvvX
    row X..T.gg........X
    row Xf.T.gggg...S..X
    row X.........ff...X
    row XXXXXXXXXXXXXXXX

route3_warps:
    warp 2, 13, 59, 13, 2
    end_of_list

route3_things:
    thing 8, 12, PIC_KID_LEFT, LEFT, 3, BEAT_MARA, STAYS, mara_script
    thing 3, 12, PIC_KID, DOWN, 3, BEAT_TOBY, STAYS, toby_script
    thing 9, 12, SIGN, DOWN, 0, NONE, STAYS, route3_sign
    end_of_list

mara_script:
    if_set BEAT_MARA, .again
    say "MARA: THE WIND", "TOLD ME OF YOU."
    say "IT SAID: A SMALL", "ONE IN A HURRY."
    fight MARA
    set_flag BEAT_MARA
    say "MARA: IT DID NOT", "TELL ME THAT."
    say "TAKE THE LONG WAY", "ROUND THE FENCES."
    stop
.again:
    say "MARA: THE CAVE IS", "DARK BUT SHORT."
    stop
toby_script:
    if_set BEAT_TOBY, .again
    say "TOBY: TWO OF MINE", "FOR ONE OF YOURS!"
    say "I COUNTED TWICE.", "IT IS FAIR."
    fight TOBY
    set_flag BEAT_TOBY
    say "TOBY: TWO WERE NOT", "ENOUGH?"
    say "I WILL GO HOME AND", "COUNT AGAIN."
    stop
.again:
    say "TOBY: THREE NEXT", "TIME, THEN."
    stop
route3_sign:
    say "CAVE AHEAD", "LAKEMERE BEHIND IT"
    stop
