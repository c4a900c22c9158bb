; Registers of the Game Boy that this program uses.
P1   equ $FF00      ; buttons
IFR  equ $FF0F      ; pending interrupts
LCDC equ $FF40
STAT equ $FF41
SCY  equ $FF42
SCX  equ $FF43
LY   equ $FF44
LYC  equ $FF45
DMA  equ $FF46
BGP  equ $FF47
OBP0 equ $FF48
OBP1 equ $FF49
WY   equ $FF4A
WX   equ $FF4B
IE   equ $FFFF

; Screen on; window map at $9C00, window on; tiles of the ground at $8800-$97FF; map at $9800;
; sprites 8x16, on.
LCDC_ON equ %11100111

SPRITE_TILES equ $8000
TEXT_TILES   equ $8800      ; tiles 128-255: letters, bars, battle pictures
GROUND_TILES equ $9000      ; tiles 0-127: terrain
GROUND_MAP   equ $9800
WINDOW_MAP   equ $9C00
STACK_TOP    equ $DFFF
