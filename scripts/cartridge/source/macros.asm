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
macro take_item         ; out of the bag, where it is there
    db 12, \1
endm
macro if_item           ; thing, where to go on if it is in the bag
    db 13, \1
    dw \2
endm
macro take_control      ; no button but A and B, and these only in text boxes, until the script ends
    db 14
endm
macro walk              ; direction, cells: nothing may stand there
    db 15, \1, \2
endm
macro pause             ; frames
    db 16, \1
endm
macro go_to             ; map, y, x
    db 17, \1, \2, \3
endm
macro ask               ; a text box with yes and no: two short lines, where to go on after no
    db 18, \1, NEWLINE, \2, END
    dw \3
endm
macro tell_secret       ; floor: of three labels that follow the one of its true stairs
    db 19, \1
    dw \2, \3, \4
endm
macro flip_flag         ; a switch
    db 20, \1
endm
macro open_machine
    db 21
endm
macro cut_ahead         ; the shrub in front of the player is gone
    db 22
endm

; Maps. `thing` stands at y, x and looks like a picture; it watches in a direction for so many
; cells (a trainer) until its flag is set; then it stays or goes (constants.asm has more kinds).
macro thing             ; y, x, picture, direction, cells watched, flag, STAYS or GOES, script
    db \1, \2, \3, \4 + 16 * \5, \6, \7
    dw \8
endm
macro warp              ; y, x, map, y there, x there
    db \1, \2, \3, \4, \5
endm
macro fork              ; map, y, x, floor 0 or 1, stairs 1 to 3; map, y, x where the true ones lead
    db \1, \2, \3, \4, \5, \6, \7, \8
endm
macro end_of_list
    db $FF
endm
