; The trainers: class, number among the leaders (0 none), prize in hundreds, creatures with levels.
trainers:
    dw rival1, lena, otis, pupil1, leader1, mara, toby, digger, rival2, pupil2, leader2, ivy
    dw pupil3, leader3, champion, sal, miner, rival3, warden, sage, nils, greta, roe
    dw hale, ola, jon, tilda, ute

rival1:   db 25, 0, $01, 1, MOSSEL, 4
lena:     db 2, 0, $01, 1, SKITTER, 4
otis:     db 1, 0, $01, 1, FLAPJAY, 5
pupil1:   db 4, 0, $02, 1, GRUMBO, 6
leader1:  db 34, 1, $09, 1, GRUMBO, 7
mara:     db 3, 0, $02, 1, MOSSEL, 8
toby:     db 1, 0, $02, 2, SKITTER, 7, FLAPJAY, 8
digger:   db 14, 0, $03, 1, GRUMBO, 10
rival2:   db 25, 0, $05, 2, FLAPJAY, 10, MOSSEL, 11
pupil2:   db 4, 0, $03, 1, PUDDLO, 10
leader2:  db 35, 2, $15, 2, PUDDLO, 11, PUDDLO, 13
ivy:      db 6, 0, $03, 2, SKITTER, 11, MOSSEL, 12
pupil3:   db 5, 0, $04, 1, ZAPMOTH, 13
leader3:  db 36, 3, $20, 2, ZAPMOTH, 14, ZAPMOTH, 16
champion: db 43, 0, $99, 3, FLAPJAY, 17, PUDDLO, 18, OLDWYRM, 20
sal:      db 2, 0, $04, 2, FLAPJAY, 14, PUDDLO, 15
miner:    db 14, 0, $05, 2, GRUMBO, 15, GRUMBO, 16
rival3:   db 25, 0, $20, 2, FLAPJAY, 17, MOSSEL, 18
warden:   db 47, 0, $30, 2, GRUMBO, 17, ZAPMOTH, 19
sage:     db 46, 0, $25, 2, MOSSEL, 17, PUDDLO, 18
nils:     db 20, 0, $05, 2, SKITTER, 13, GRUMBO, 16
greta:    db 20, 0, $05, 2, MOSSEL, 14, PUDDLO, 17
roe:      db 14, 0, $05, 2, SKITTER, 12, PUDDLO, 14
hale:     db 20, 0, $05, 2, SKITTER, 13, ZAPMOTH, 15
ola:      db 20, 0, $05, 2, FLAPJAY, 13, ZAPMOTH, 16
jon:      db 20, 0, $05, 2, MOSSEL, 13, GRUMBO, 16
tilda:    db 20, 0, $05, 2, PUDDLO, 14, FLAPJAY, 17
ute:      db 6, 0, $03, 1, PUDDLO, 11
