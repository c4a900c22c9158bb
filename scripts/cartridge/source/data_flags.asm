; Where each event flag lives: byte and bit mask, in the order of constants.asm. The places are
; those of the real game's flags of the same kind.
macro flag
    dw \1
    db 1 << \2
endm
flag_places:
    flag $D747, 0           ; GREETED_DAD
    flag $D74B, 1           ; MET_ELDER
    flag $D74B, 2           ; GOT_STARTER
    flag $D74B, 3           ; BEAT_RIVAL
    flag $D74B, 5           ; GOT_ALMANAC
    flag $D74B, 4           ; GOT_CHARM
    flag $D74A, 0           ; GOT_MAP
    flag $D7BF, 1           ; BEAT_LENA
    flag $D74E, 1           ; GOT_LETTER
    flag $D7BF, 5           ; GOT_FRIEND
    flag $D7BF, 2           ; BEAT_OTIS
    flag $D755, 0           ; SLEPT_STONE
    flag $D755, 2           ; BEAT_PUPIL1
    flag $D755, 7           ; BEAT_LEADER1
    flag $D755, 6           ; GOT_TONIC
    flag $D74E, 0           ; LETTER_BROUGHT
    flag $D7C3, 2           ; BEAT_MARA
    flag $D7C3, 3           ; BEAT_TOBY
    flag $D7F6, 1           ; BEAT_DIGGER
    flag $D7F6, 6           ; GOT_SHELL
    flag $D75A, 0           ; BEAT_RIVAL2
    flag $D75E, 0           ; SLEPT_LAKE
    flag $D75E, 2           ; BEAT_PUPIL2
    flag $D75E, 7           ; BEAT_LEADER2
    flag $D7F1, 0           ; MET_HERMIT
    flag $D7F2, 4           ; GOT_PASS
    flag $D7C9, 3           ; BEAT_UTE
    flag $D7C9, 1           ; BEAT_IVY
    flag $D771, 1           ; ASKED_STONE
    flag $D75F, 0           ; GOT_STONE
    flag $D78E, 1           ; STONE_BROUGHT
    flag $D803, 0           ; GOT_CUT
    flag $D773, 0           ; GATE_OPEN
    flag $D773, 2           ; BEAT_PUPIL3
    flag $D773, 7           ; BEAT_LEADER3
    flag $D7C9, 2           ; BEAT_SAL
    flag $D76C, 0           ; SLEPT_ISLE
    flag $D7BF, 6           ; GOT_PUDDLO
    flag $D7F6, 3           ; BEAT_ROE
    flag $D7F6, 2           ; BEAT_MINER
    flag $D81B, 6           ; GOT_KEY
    flag $D76A, 1           ; HEARD_WAY
    flag $D81B, 5           ; DOOR_OPEN
    flag $D769, 1           ; GOT_LAMP
    flag $D76C, 2           ; LAMP_SHOWN
    flag $D74B, 6           ; BLESSED
    flag $D7ED, 1           ; SLEPT_MILL
    flag $D7EE, 1           ; BEAT_HALE
    flag $D7ED, 0           ; PASSED_WATCH1
    flag $D7ED, 6           ; PASSED_WATCH2
    flag $D7ED, 3           ; PASSED_WATCH3
    flag $D869, 1           ; BEAT_NILS
    flag $D869, 2           ; BEAT_GRETA
    flag $D7EB, 6           ; BEAT_RIVAL3
    flag $D7EE, 2           ; BEAT_OLA
    flag $D7EE, 3           ; BEAT_JON
    flag $D866, 6           ; BEAT_WARDEN
    flag $D813, 1           ; BEAT_TILDA
    flag $D863, 1           ; BEAT_SAGE
    flag $D867, 1           ; BEAT_CHAMPION
    flag $D796, 0           ; SLUICE_OPEN
