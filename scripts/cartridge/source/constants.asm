; Names for numbers.

; Busy work of each frame, in turns of about 28 clocks. It stands for the music of the real game: with
; it a frame costs the emulator about as much as one of the real game does. 1 is none.
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
MODE_MENU   equ 6

; wMenu
MENU_ASK     equ 0
MENU_START   equ 1
MENU_BAG     equ 2
MENU_PARTY   equ 3
MENU_MOVES   equ 4
MENU_MACHINE equ 5
MENU_BOX     equ 6

; wPurpose
TO_USE   equ 0
TO_TEACH equ 1
TO_STORE equ 2

; wTextBoxId, as in the real game
BOX_MESSAGE  equ 1
BOX_LIST     equ $0D
BOX_QUESTION equ $14

; wJoyIgnore
KEYS_ALL    equ $FF
KEYS_NO_BOX equ %11111100   ; everything but A and B
KEYS_MENU   equ %00001100   ; start and select

; Moves
TACKLE equ $21
CUT    equ $0F
CUT_PP equ 30

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
WATER equ 6
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
SLEPT_STONE    equ 11
BEAT_PUPIL1    equ 12
BEAT_LEADER1   equ 13
GOT_TONIC      equ 14
LETTER_BROUGHT equ 15
BEAT_MARA      equ 16
BEAT_TOBY      equ 17
BEAT_DIGGER    equ 18
GOT_SHELL      equ 19
BEAT_RIVAL2    equ 20
SLEPT_LAKE     equ 21
BEAT_PUPIL2    equ 22
BEAT_LEADER2   equ 23
MET_HERMIT     equ 24
GOT_PASS       equ 25
BEAT_UTE       equ 26
BEAT_IVY       equ 27
ASKED_STONE    equ 28
GOT_STONE      equ 29
STONE_BROUGHT  equ 30
GOT_CUT        equ 31
GATE_OPEN      equ 32
BEAT_PUPIL3    equ 33
BEAT_LEADER3   equ 34
BEAT_SAL       equ 35
SLEPT_ISLE     equ 36
GOT_PUDDLO     equ 37
BEAT_ROE       equ 38
BEAT_MINER     equ 39
GOT_KEY        equ 40
HEARD_WAY      equ 41
DOOR_OPEN      equ 42
GOT_LAMP       equ 43
LAMP_SHOWN     equ 44
BLESSED        equ 45
SLEPT_MILL     equ 46
BEAT_HALE      equ 47
PASSED_WATCH1  equ 48
PASSED_WATCH2  equ 49
PASSED_WATCH3  equ 50
BEAT_NILS      equ 51
BEAT_GRETA     equ 52
BEAT_RIVAL3    equ 53
BEAT_OLA       equ 54
BEAT_JON       equ 55
BEAT_WARDEN    equ 56
BEAT_TILDA     equ 57
BEAT_SAGE      equ 58
BEAT_CHAMPION  equ 59
; Switches: flags behind those of the story that can be cleared again.
SLUICE_OPEN    equ 60

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
SAL     equ 15
MINER   equ 16
RIVAL3  equ 17
WARDEN  equ 18
SAGE    equ 19
NILS    equ 20
GRETA   equ 21
ROE     equ 22
HALE    equ 23
OLA     equ 24
JON     equ 25
TILDA   equ 26
UTE     equ 27

; Things in the bag
ALMANAC equ $09
TONIC   equ $14
PASS    equ $3F
SHELL   equ $2A
STONE   equ $40
KEY     equ $4A
LAMP    equ $48
CUT_BOOK equ $C4            ; the real game's machine of the same move

; Pictures of people and things, four tiles each (art_people.asm); + MIRROR turns left to right
MIRROR      equ $80
INVISIBLE   equ $7F
SIGN        equ $7E         ; invisible too: the map has a picture of it
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
PIC_MACHINE equ 21
PIC_LEVER   equ 22
PIC_LAMP    equ 23
PIC_BOOK    equ 24

; Objects: always there; gone once their flag is set; a shrub that is cut down until one comes back
; (its flag is its number on the map, 0 to 7); or only there while their flag is set
STAYS   equ 0
GOES    equ 1
REGROWS equ 2
COMES   equ 3

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
