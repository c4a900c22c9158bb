; The words that scripts and maps are written in. Each script word becomes one byte of code and
; its operands; scripts.asm carries them out.

macro stop              ; the script ends
    db 0
endm
macro say               ; one text box of one or two lines
    db 1, \1, NEWLINE, \2, END
endm
macro set_flag
    db 2, \1
endm
macro if_set            ; flag, where to go on
    db 3, \1
    dw \2
endm
macro if_clear
    db 4, \1
    dw \2
endm
macro fight             ; the script goes on after a victory, a defeat ends it
    db 5, \1
endm
macro heal_party
    db 6
endm
macro give_creature     ; creature, level
    db 7, \1, \2
endm
macro give_badge        ; bit
    db 8, \1
endm
macro give_item
    db 9, \1
endm
macro rest_here         ; this map is where one wakes up after a defeat
    db 10
endm
macro finish_game
    db 11
endm

; Maps. `thing` stands at y, x and looks like a picture; it watches in a direction for so many
; cells (a trainer) until its flag is set; then it stays or goes.
macro thing             ; y, x, picture, direction, cells watched, flag, STAYS or GOES, script
    db \1, \2, \3, \4 + 16 * \5, \6, \7
    dw \8
endm
macro warp              ; y, x, map, y there, x there
    db \1, \2, \3, \4, \5
endm
macro end_of_list
    db $FF
endm
