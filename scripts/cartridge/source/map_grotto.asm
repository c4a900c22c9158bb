; The grotto: a sluice drains one gallery and floods another. Its lever can be pulled again and again.
grotto_cells:
    row XXXXXXXXXXXXXXXX
    row X::::XX::::::::X
    row X::X:XX::XXXX::X
    row X::X::::::XXX::X
    row X::XXXXXX:XXXXXX
    row X:::::::X:::::XX
    row XXXX:XX:XXXXXXXX
    row X::::XX::::::::X
    row X::XXXXXXX:XXX:X
    row X::::::::X:XXX:X
    row X::XXX:::X:::::X
    row X::XXX:::XXXX:XX
    row XX:::::::::::::X
    row XXXXXXXXXXXXOXXX

grotto_warps:
    warp 13, 12, 8, 10, 13
    end_of_list

grotto_things:
    thing 2, 3, PIC_LEVER, DOWN, 0, NONE, STAYS, lever_script
    thing 3, 6, PIC_GATE, DOWN, 0, SLUICE_OPEN, GOES, flooded
    thing 6, 7, PIC_GATE, DOWN, 0, SLUICE_OPEN, COMES, flooded
    thing 3, 5, PIC_KID_LEFT, LEFT, 1, BEAT_ROE, GOES, roe_script
    thing 5, 11, PIC_KID_LEFT, LEFT, 1, BEAT_MINER, GOES, miner_script
    thing 5, 13, PIC_ITEM, DOWN, 0, GOT_KEY, GOES, key_script
    end_of_list

lever_script:
    flip_flag SLUICE_OPEN
    say "CLANK! WATER RUNS", "SOMEWHERE ELSE."
    stop
flooded:
    say "A SLUICE GATE, AND", "WATER BEHIND IT."
    stop
roe_script:
    say "ROE: MY LAMP WENT", "OUT. ARE YOU WILD?"
    say "I SEE NOBODY. HIT", "WHERE YOU THINK."
    fight ROE
    set_flag BEAT_ROE
    say "ROE: NOT A CAVE", "BAT, THEN. SORRY."
    say "THERE IS A GATE. I", "FELT IT. OUCH."
    stop
miner_script:
    say "MINER: FINDERS", "KEEPERS, LOSERS..."
    say "I FOUND THE THING.", "IT IS A KEEPER'S."
    fight MINER
    set_flag BEAT_MINER
    say "MINER: ...WEEPERS.", "TAKE THE THING."
    say "TELL THE KEEPER I", "KEPT IT DRY."
    say "MOSTLY. ONE SPLASH", "DOES NOT COUNT."
    stop
key_script:
    give_item KEY
    set_flag GOT_KEY
    say "AN IRON KEY, RED", "WITH RUST."
    say "IT SMELLS OF SALT", "AND OF OLD LIGHT."
    stop
