; The creatures: species number, bit in the owned and seen lists, name, picture.
macro creature
    db \1, \2
    dw \3, \4
endm
kinds:
    creature $B0, 3,  name_lumpkin, pic_lumpkin
    creature $24, 15, name_mossel,  pic_mossel
    creature $7B, 9,  name_skitter, pic_skitter
    creature $96, 17, name_flapjay, pic_flapjay
    creature $A9, 73, name_grumbo,  pic_grumbo
    creature $1B, 119, name_puddlo, pic_puddlo
    creature $54, 24, name_zapmoth, pic_zapmoth
    creature $42, 148, name_oldwyrm, pic_oldwyrm

name_lumpkin: db "LUMPKIN", END
name_mossel:  db "MOSSEL", END
name_skitter: db "SKITTER", END
name_flapjay: db "FLAPJAY", END
name_grumbo:  db "GRUMBO", END
name_puddlo:  db "PUDDLO", END
name_zapmoth: db "ZAPMOTH", END
name_oldwyrm: db "OLDWYRM", END
