; The table of maps: number, height and width in cells, tile set, cell around it; cells, warps, things; neighbours
; down, up, left, right (number and shift along the edge); two wild creatures, lowest level, spread.
macro map               ; number, height, width, tile set, cell around it, name
    db \1, \2, \3, \4, \5
    dw \6_cells, \6_warps, \6_things
endm
macro links             ; eight values
    db \1, \2, \3, \4, \5, \6, \7, \8
endm
macro wild
    db \1, \2, \3, \4
endm
macro alone             ; an indoor map: no neighbours, nothing wild
    links NONE, 0, NONE, 0, NONE, 0, NONE, 0
    wild 0, 0, 0, 0
endm

maps:
    map 37, 6, 6, 1, VOID, home
    alone
    map 0, 14, 16, 0, TREE, town
    links NONE, 0, 12, -2, NONE, 0, NONE, 0
    wild SKITTER, SKITTER, 2, 1
    map 40, 7, 6, 5, VOID, lab
    alone
    map 12, 11, 12, 0, TREE, route1
    links 0, 2, 1, 3, NONE, 0, NONE, 0
    wild SKITTER, FLAPJAY, 2, 1
    map 1, 12, 16, 0, TREE, millbrook
    links 12, -3, 13, -2, 33, 0, NONE, 0
    wild SKITTER, MOSSEL, 3, 1
    map 41, 6, 8, 6, VOID, millbrook_centre
    alone
    map 44, 6, 6, 1, VOID, cottage
    alone
    map 13, 10, 12, 0, TREE, route2
    links 1, 2, 2, 0, NONE, 0, NONE, 0
    wild MOSSEL, FLAPJAY, 3, 1
    map 2, 13, 16, 0, ROCK, stonewick
    links 13, 0, NONE, 0, NONE, 0, 14, -1
    wild GRUMBO, MOSSEL, 4, 1
    map 58, 6, 8, 6, VOID, stonewick_centre
    alone
    map 54, 8, 7, 7, VOID, gym1
    alone
    map 14, 12, 16, 0, ROCK, route3
    links NONE, 0, NONE, 0, 2, 1, NONE, 0
    wild FLAPJAY, GRUMBO, 6, 3
    map 59, 16, 16, 17, ROCK, cave
    links NONE, 0, NONE, 0, NONE, 0, NONE, 0
    wild GRUMBO, ZAPMOTH, 7, 3
    map 3, 14, 16, 0, TREE, lakemere
    links 16, -3, NONE, 0, NONE, 0, NONE, 0
    wild PUDDLO, MOSSEL, 8, 3
    map 64, 6, 8, 6, VOID, lakemere_centre
    alone
    map 88, 6, 6, 1, VOID, hermit
    alone
    map 65, 9, 8, 7, VOID, gym2
    alone
    map 16, 12, 12, 0, TREE, route5
    links 5, 2, 3, 3, NONE, 0, NONE, 0
    wild MOSSEL, ZAPMOTH, 9, 3
    map 5, 14, 16, 0, TREE, port
    links NONE, 0, 16, -2, NONE, 0, NONE, 0
    wild ZAPMOTH, PUDDLO, 10, 3
    map 89, 6, 8, 6, VOID, port_centre
    alone
    map 92, 9, 8, 7, VOID, gym3
    alone
    map 93, 6, 6, 1, VOID, woodcutter
    alone
    map 94, 8, 12, 14, WATER, boat
    alone
    map 8, 16, 16, 0, WATER, isle
    links NONE, 0, NONE, 0, NONE, 0, NONE, 0
    wild PUDDLO, FLAPJAY, 12, 3
    map 171, 6, 8, 6, VOID, isle_centre
    alone
    map 167, 6, 6, 1, VOID, keeper
    alone
    map 165, 14, 16, 17, ROCK, grotto
    links NONE, 0, NONE, 0, NONE, 0, NONE, 0
    wild GRUMBO, PUDDLO, 12, 3
    map 142, 7, 9, 15, VOID, tower1
    alone
    map 143, 7, 9, 15, VOID, tower2
    alone
    map 144, 7, 9, 15, VOID, tower3
    alone
    map 33, 10, 12, 0, ROCK, route22
    links NONE, 0, NONE, 0, NONE, 0, 1, 0
    wild ZAPMOTH, GRUMBO, 12, 3
    map 108, 14, 20, 17, ROCK, climb1
    links NONE, 0, NONE, 0, NONE, 0, NONE, 0
    wild GRUMBO, ZAPMOTH, 12, 3
    map 194, 14, 20, 17, ROCK, climb2
    links NONE, 0, NONE, 0, NONE, 0, NONE, 0
    wild ZAPMOTH, GRUMBO, 12, 3
    map 198, 14, 20, 17, ROCK, climb3
    links NONE, 0, NONE, 0, NONE, 0, NONE, 0
    wild GRUMBO, FLAPJAY, 12, 3
    map 120, 7, 6, 7, VOID, summit
    alone
    map 118, 6, 6, 7, VOID, hall
    alone
    end_of_list
