; The climb: three caves between the watch and the summit.
climb1_cells:
    row XXXXXXXXXXXXXXXXXXXX
    row XXXXXXXXXXXXXXXX::OX
    row XXXXXXXXXXXXXXXXX:XX
    row XX::::::::::::::::XX
    row XX:XXXXXXXXXXXXXXXXX
    row XX::::::::::::::::XX
    row XXXXXXXXXXXXXXXXX:XX
    row X::::::::::::::::::X
    row XXXXX:XXXXXXXXXXXXXX
    row X::::::::::::X:::::X
    row X::XXXXXXXXX:X::XXXX
    row X::::::::::::::::::X
    row XXX::XXXXXXXXXXX:::X
    row XXXOXXXXXXXXXXXXXXXX

climb1_warps:
    warp 13, 3, 33, 3, 5
    warp 1, 18, 194, 12, 1
    end_of_list

climb1_things:
    thing 8, 5, PIC_KID, DOWN, 1, BEAT_NILS, GOES, nils_script
    thing 4, 2, PIC_WOMAN, DOWN, 1, BEAT_GRETA, GOES, greta_script
    thing 1, 16, PIC_RIVAL_LEFT + MIRROR, RIGHT, 1, BEAT_RIVAL3, STAYS, rival_at_climb
    end_of_list

nils_script:
    say "NILS: UP HERE ONE", "MEETS NOBODY. YOU?"
    say "SAY SOMETHING, OR", "I SHALL BE AFRAID."
    say "LET US SEE WHO IS", "REALLY HERE."
    fight NILS
    set_flag BEAT_NILS
    say "NILS: THERE IS MY", "SISTER, TOO."
    stop
greta_script:
    say "GRETA: HEY! ONLY", "ONE OF US RESTS."
    say "NILS WOKE ME. NOW", "YOU TIRE ME."
    fight GRETA
    set_flag BEAT_GRETA
    heal_party
    say "GRETA: THEN HAVE", "MY SOUP. IT'S HOT."
    say "THE POT IS OLD BUT", "THE FIRE IS NEW."
    stop
rival_at_climb:
    if_set BEAT_RIVAL3, .again
    say "PIP: WHOSE LIGHT", "IS THAT? YOURS?!"
    say "I WENT UP FIRST.", "I SAT DOWN FIRST."
    say "MY LEGS SAY WAIT.", "MY TEAM SAYS GO."
    fight RIVAL3
    set_flag BEAT_RIVAL3
    say "PIP: GO ON THEN.", "I HAVE THE SNACKS."
    say "TELL ODA THAT PIP", "IS ALMOST THERE."
    stop
.again:
    say "PIP: IT IS DARK", "WITHOUT YOU."
    stop

climb2_cells:
    row XXXXXXXXXXXXXXXXXXXX
    row XXX:::::XXXXXXXXXOXX
    row XXX:XXX:XXXXXXXXX:XX
    row X:::X:::::XXXXXX:::X
    row X:XXX:XXX:XXXXXX:X:X
    row X:::::XXX::::::::X:X
    row XXXX:XXXXXXXXXXXXX:X
    row X:::::::::::::::::XX
    row X:XXXXXXXXXXXXXXXXXX
    row X::::::::::::::::::X
    row XXXXXXXXXXXXXXXXXX:X
    row X::::::::::::::::::X
    row X::XXXXXXXXXXXXXXXXX
    row XOXXXXXXXXXXXXXXXXXX

climb2_warps:
    warp 13, 1, 108, 1, 17
    warp 1, 17, 198, 12, 18
    end_of_list

climb2_things:
    thing 8, 1, PIC_WOMAN, DOWN, 1, BEAT_OLA, GOES, ola_script
    thing 5, 11, PIC_KID_LEFT, LEFT, 1, BEAT_JON, GOES, jon_script
    thing 3, 17, PIC_GUARD, DOWN, 0, BEAT_WARDEN, GOES, warden_script
    end_of_list

ola_script:
    say "OLA: ANOTHER TURN,", "ANOTHER CLIMBER."
    say "I MAKE TEA AT EACH", "OF THEM."
    say "I COUNT THEM. THIS", "ONE IS ELEVEN."
    fight OLA
    set_flag BEAT_OLA
    say "OLA: THE NEXT TURN", "IS JON'S."
    say "HIS SCARF IS MINE,", "BY THE WAY."
    stop
jon_script:
    say "JON: OLA SENT YOU?", "SHE ALWAYS DOES."
    say "SHE KNITS. I FIGHT", "FOR THE WOOL."
    fight JON
    set_flag BEAT_JON
    heal_party
    say "JON: HER TEA. SHE", "MAKES TOO MUCH."
    say "JON: THE WARDEN IS", "JUST AROUND."
    stop
warden_script:
    say "WARDEN: ONE LAST", "LOOK AT YOUR TEAM."
    say "NOBODY FALLS FROM", "HERE UNSEEN."
    say "WHO GOES ON FROM", "HERE GOES TO ODA."
    fight WARDEN
    set_flag BEAT_WARDEN
    heal_party
    say "WARDEN: A FINE ONE", "INDEED. HAVE SOUP."
    say "TWO MORE ON THE", "WAY. THEN SKY."
    say "DON'T LOOK DOWN.", "OR DO. IT IS NICE."
    stop

climb3_cells:
    row XXXXXXXXXXXXXXXXXXXX
    row X:::::::::::::::::OX
    row X:XXXXXXXXXXXXXXXXXX
    row X:::::::::::::::::XX
    row XXXXXXX::XXXXXXXXXXX
    row XX::::::::::::::::XX
    row XX:XXXX::XXXXXXXXXXX
    row XX::::::::::::::::XX
    row XXXXXXXXXXXXXXXXX:XX
    row X:::::::::::::::::XX
    row X:XXXXXXXXXXXXXXXXXX
    row X::::::::::::::::::X
    row XXXXXXXXXXXXXXXXXX:X
    row XXXXXXXXXXXXXXXXXXOX

climb3_warps:
    warp 13, 18, 194, 2, 17
    warp 1, 18, 120, 5, 2
    end_of_list

climb3_things:
    thing 10, 1, PIC_WOMAN, DOWN, 1, BEAT_TILDA, GOES, tilda_script
    thing 4, 8, PIC_ELDER, LEFT, 1, BEAT_SAGE, STAYS, sage_script
    end_of_list

tilda_script:
    say "TILDA: FROM HERE I", "HEAR THE HALL."
    say "IT IS A LOW NOTE.", "YOU KNOW IT."
    say "IT HUMS AT NIGHT,", "LIKE A SHELL."
    fight TILDA
    set_flag BEAT_TILDA
    say "TILDA: RING IT FOR", "ALL OF US."
    say "ONCE FOR ME AND", "TWICE FOR OLA."
    stop
sage_script:
    if_set BEAT_SAGE, .again
    say "SAGE: I COUNT THE", "STEPS OF GUESTS."
    say "THE FIRST WAS SLOW", "THE LAST WERE NOT."
    say "YOURS WERE MANY.", "SOME WERE SIDEWAYS"
    fight SAGE
    set_flag BEAT_SAGE
    say "SAGE: NOT MANY ARE", "LEFT. GO ON."
    say "ODA TOOK THEM TWO", "AT A TIME."
    say "COUNT THE REST FOR", "ME, WILL YOU?"
    stop
.again:
    say "SAGE: THE TOP IS", "NEAR AND WINDY."
    stop
