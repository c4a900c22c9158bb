; Codes of letters in texts (the real game's numbering) and of cells in map rows.
END     equ $50
NEWLINE equ $4E
charmap "A", $80
charmap "B", $81
charmap "C", $82
charmap "D", $83
charmap "E", $84
charmap "F", $85
charmap "G", $86
charmap "H", $87
charmap "I", $88
charmap "J", $89
charmap "K", $8A
charmap "L", $8B
charmap "M", $8C
charmap "N", $8D
charmap "O", $8E
charmap "P", $8F
charmap "Q", $90
charmap "R", $91
charmap "S", $92
charmap "T", $93
charmap "U", $94
charmap "V", $95
charmap "W", $96
charmap "X", $97
charmap "Y", $98
charmap "Z", $99
charmap " ", TILE_SPACE
charmap ":", $9C
charmap "'", $E0
charmap "-", $E3
charmap "?", $E6
charmap "!", $E7
charmap ".", $E8
charmap "/", $F3
charmap ",", $F4
charmap "#", $DC           ; a brick of the title
charmap "0", $F6
charmap "1", $F7
charmap "2", $F8
charmap "3", $F9
charmap "4", $FA
charmap "5", $FB
charmap "6", $FC
charmap "7", $FD
charmap "8", $FE
charmap "9", $FF

cellmap "0", 0   ; void
cellmap ".", 1   ; ground
cellmap ",", 2   ; path
cellmap "g", 3   ; grass
cellmap "f", 4   ; flowers
cellmap "T", 5   ; tree
cellmap "~", 6   ; water
cellmap "v", 7   ; ledge
cellmap "=", 8   ; fence
cellmap "W", 9   ; window
cellmap "w", 10  ; wall
cellmap "D", 11  ; door
cellmap "R", 12  ; roof
cellmap "(", 13  ; roof-left
cellmap ")", 14  ; roof-right
cellmap "S", 15  ; sign
cellmap "X", 16  ; rock
cellmap ":", 17  ; cave-floor
cellmap "O", 18  ; cave-mouth
cellmap "_", 19  ; floor
cellmap "M", 20  ; inner-wall
cellmap "t", 21  ; table
cellmap "b", 22  ; shelf
cellmap "B", 23  ; bed
cellmap "E", 24  ; mat
cellmap "C", 25  ; counter
cellmap "H", 26  ; healer
cellmap "c", 27  ; tiles
cellmap "Y", 28  ; statue
cellmap "p", 29  ; plank
cellmap "K", 30  ; emblem
