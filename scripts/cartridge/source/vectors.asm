; Interrupt and entry points.
org $40
    jp vblank

org $48
    jp line_reached

org $100
    nop
    jp start

; A directory for programs that read this ROM (atlas.py): where its tables begin.
org $150
directory:
    dw maps, cell_rules, flag_places, cell_letters, forks
