; The road south, to the sea.
route5_cells:
    row TTTTT,TTTTTT
    row T..g.,.g...T
    row T.gggggggg.T
    row T.gggggggg.T
    row T=====,====T
    row T..~~.,.~~.T
    row T..~~.,.~~.T
    row T.ff.....f.T
    row TvvvvvvvT,,T
    row T.........,T
    row T.gggg,,,,,T
    row TTTTTT,TTTTT

route5_warps:
    end_of_list

route5_things:
    thing 4, 6, PIC_WOMAN, UP, 1, BEAT_UTE, GOES, ute_script
    thing 7, 10, PIC_KID_LEFT, LEFT, 9, BEAT_IVY, STAYS, ivy_script
    end_of_list

ute_script:
    say "UTE: THE GAP IS", "MINE TODAY."
    say "YESTERDAY IT WAS", "IVY'S."
    fight UTE
    set_flag BEAT_UTE
    say "UTE: TAKE THE GAP.", "IT IS DRAUGHTY."
    say "IVY HAS THE NEXT.", "SHE BITES."
    stop
ivy_script:
    if_set BEAT_IVY, .again
    say "IVY: I CAN SMELL", "THE SEA. AND YOU."
    say "DID YOU SWIM HERE", "OR JUST PERSPIRE?"
    fight IVY
    set_flag BEAT_IVY
    say "IVY: SALTY..."
    say "THE WOODCUTTER IS", "RIGHT OF THE ROAD."
    stop
.again:
    say "IVY: THE FERRY", "SAILS ONE WAY."
    stop
