; The free cartridge of Daddy: a small island whose RAM layout is that of the real game.
; Read in this order; every file says what it owns.

include "hardware.asm"      ; registers of the machine
include "ram.asm"           ; where every variable lives
include "constants.asm"     ; flags, creatures, cells, pictures, modes
include "macros.asm"        ; the words that scripts and maps are written in
include "letters.asm"       ; codes of letters in texts and in map rows

include "vectors.asm"       ; interrupt and entry points
include "init.asm"          ; power on
include "loop.asm"          ; one frame: wait, read the buttons, act, draw
include "vblank.asm"        ; what happens at every vertical blank
include "tools.asm"         ; random numbers, flags, numbers on screen
include "screen.asm"        ; the 20x18 screen buffer and its way into video memory
include "title.asm"         ; title screen, new game
include "maps.asm"          ; entering a map
include "lists.asm"         ; its things, signs, ways out, neighbours
include "view.asm"          ; its cells and surroundings, scrolling
include "movement.asm"      ; walking, ledges, grass
include "passages.asm"      ; doors and edges of maps
include "forks.asm"         ; stairs that may be the wrong ones
include "ahead.asm"         ; what lies around the player, where the real game has it
include "objects.asm"       ; people and things: bumping, talking, line of sight
include "sprites.asm"       ; where they are drawn
include "scripts.asm"       ; the small language of events
include "gifts.asm"         ; its words that give and take
include "scenes.asm"        ; its words that take the buttons away
include "textbox.asm"       ; dialogue
include "menu.asm"          ; menus: a hand, a choice, a way back
include "menu_ask.asm"      ; yes and no
include "menu_start.asm"    ; START
include "menu_bag.asm"      ; things and their use
include "menu_party.asm"    ; members and their moves
include "cut.asm"           ; the move that opens ways
include "machine.asm"       ; storing friends away
include "box.asm"           ; where they are kept
include "creatures.asm"     ; party: joining, levels, healing
include "battle.asm"        ; rounds, victory, defeat
include "battle_texts.asm"
include "foes.asm"          ; who stands opposite
include "battle_screen.asm" ; names and bars of a battle
include "pictures.asm"      ; of creatures
include "hud.asm"           ; status line and status page
include "ending.asm"        ; the last screen

include "data_flags.asm"
include "data_creatures.asm"
include "data_trainers.asm"
include "data_cells.asm"
include "world.asm"         ; table of maps
include "map_home.asm"
include "map_town.asm"
include "map_lab.asm"
include "map_route1.asm"
include "map_millbrook.asm"
include "map_centres.asm"
include "map_route2.asm"
include "map_stonewick.asm"
include "map_gym1.asm"
include "map_route3.asm"
include "map_cave.asm"
include "map_lakemere.asm"
include "map_gym2.asm"
include "map_route5.asm"
include "map_port.asm"
include "map_gym3.asm"
include "map_woodcutter.asm"
include "map_boat.asm"
include "map_isle.asm"
include "map_grotto.asm"
include "map_tower.asm"
include "map_climb.asm"
include "map_summit.asm"

include "art_terrain.asm"
include "art_indoors.asm"
include "art_people.asm"
include "art_folk.asm"
include "art_things.asm"
include "art_creatures.asm"
include "art_font.asm"
