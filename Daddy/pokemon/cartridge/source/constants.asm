; Names for numbers.

; Busy work of the vertical blank, in turns of about 28 clocks. It stands for the music of the
; real game: with it a frame costs the emulator about as much as one of the real game does.
BUSY_WORK equ 900

; Where a new game begins; tests build variants that begin elsewhere.
HOME_MAP  equ 37
START_MAP equ 37
START_Y   equ 2
START_X   equ 3

; wMode
MODE_WORLD  equ 0
MODE_TEXT   equ 1
MODE_BATTLE equ 2
MODE_STATUS equ 3
MODE_TITLE  equ 4
MODE_ENDING equ 5

; Bits of hPressed and hHeld
KEY_A     equ 0
KEY_B     equ 1
KEY_START equ 3
KEYS_CLOSE equ %00000011    ; A or B

DOWN  equ 0
UP    equ 4
LEFT  equ 8
RIGHT equ 12

WINDOW_OFF equ $90
STATUS_LINE equ 136         ; first screen line of the status line
TEXT_LINE   equ 96          ; first screen line of the text box
VIEW_HEIGHT equ 136

; What a cell allows (table in data_cells.asm)
SOLID   equ 0
WALK    equ 1
GRASS   equ 2
LEDGE   equ 4
COUNTER equ 8
CAVE    equ 16

; Cells that surround maps, by their number in letters.asm
VOID equ 0
TREE equ 5
ROCK equ 16

; Event flags: bytes of the real game's block, numbered here in story order.
NONE equ $FF
GREETED_DAD    equ 0
MET_ELDER      equ 1
GOT_STARTER    equ 2
BEAT_RIVAL     equ 3
GOT_ALMANAC    equ 4
GOT_CHARM      equ 5
GOT_MAP        equ 6
BEAT_LENA      equ 7
GOT_LETTER     equ 8
GOT_FRIEND     equ 9
BEAT_OTIS      equ 10
BEAT_PUPIL1    equ 11
BEAT_LEADER1   equ 12
GOT_TONIC      equ 13
LETTER_BROUGHT equ 14
BEAT_MARA      equ 15
BEAT_TOBY      equ 16
BEAT_DIGGER    equ 17
GOT_SHELL      equ 18
BEAT_RIVAL2    equ 19
MET_HERMIT     equ 20
GOT_PASS       equ 21
BEAT_PUPIL2    equ 22
BEAT_LEADER2   equ 23
GOT_AXE        equ 24
BEAT_IVY       equ 25
SHRUB_CUT      equ 26
GATE_OPEN      equ 27
BEAT_PUPIL3    equ 28
BEAT_LEADER3   equ 29
PASSED_WATCH1  equ 30
PASSED_WATCH2  equ 31
BEAT_CHAMPION  equ 32
FLAG_COUNT     equ 33

; Creatures: index into data_creatures.asm
LUMPKIN equ 0
MOSSEL  equ 1
SKITTER equ 2
FLAPJAY equ 3
GRUMBO  equ 4
PUDDLO  equ 5
ZAPMOTH equ 6
OLDWYRM equ 7

; Trainers: index into data_trainers.asm
RIVAL1  equ 0
LENA    equ 1
OTIS    equ 2
PUPIL1  equ 3
LEADER1 equ 4
MARA    equ 5
TOBY    equ 6
DIGGER  equ 7
RIVAL2  equ 8
PUPIL2  equ 9
LEADER2 equ 10
IVY     equ 11
PUPIL3  equ 12
LEADER3 equ 13
CHAMPION equ 14

; Things in the bag
ALMANAC equ $09
TONIC   equ $14
PASS    equ $3F
SHELL   equ $2A
AXE     equ $C4

; Pictures of people and things, four tiles each (art_people.asm); + MIRROR turns left to right
MIRROR      equ $80
INVISIBLE   equ $7F
PIC_PLAYER  equ 0           ; down, down walking, up, up walking, left, left walking
PIC_DAD     equ 6
PIC_ELDER   equ 7
PIC_RIVAL   equ 8
PIC_RIVAL_LEFT equ 9
PIC_WOMAN   equ 10
PIC_NURSE   equ 11
PIC_GUARD   equ 12
PIC_KID     equ 13
PIC_KID_LEFT equ 14
PIC_LEADER  equ 15
PIC_CHAMPION equ 16
PIC_EGG     equ 17
PIC_ITEM    equ 18
PIC_SHRUB   equ 19
PIC_GATE    equ 20

; Objects: always there, or gone once their flag is set
STAYS equ 0
GOES  equ 1

; Tiles
TILE_SPACE  equ $7F
TILE_MINE   equ $B0         ; 16 tiles: own creature
TILE_FOE    equ $A0         ; 16 tiles: opponent
TILE_BAR    equ $C0         ; bar with 0 to 8 pixels filled
TILE_BOX    equ $C9         ; corner, edge, corner, left side, two lower corners, lower edge
TILE_BADGE  equ $D0         ; three badges
TILE_NOBADGE equ $D3
TILE_HEART  equ $D4
TILE_LEVEL  equ $D5
TILE_ARROW  equ $D6
TILE_GROUND equ $D7         ; shadow below a creature: left, middle, right
TILE_BALL   equ $DA
TILE_BOX_RIGHT equ $DB
