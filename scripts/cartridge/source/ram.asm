; Variables. Those marked * stand where the real game keeps the same fact.

; Cartridge's own, $C000-$C0FF
wMode        equ $C000      ; which kind of frame runs, see constants.asm
wMapPtr      equ $C002      ; record of the current map in the ROM
wTargetY     equ $C004      ; the cell in front of the player
wTargetX     equ $C005
wTargetCell  equ $C006
wPixelY      equ $C007      ; player in pixels of the map
wPixelX      equ $C008
wWalkSpeed   equ $C009      ; pixels a frame: 1 walking, 2 hopping
wStepParity  equ $C00A      ; which leg goes first
wSpriteLimit equ $C00B      ; sprites lower than this line are not drawn
wScript      equ $C00E      ; next byte of the running script, 0 none
wMapHeight   equ $C012      ; cells
wMapWidth    equ $C013
wLinks       equ $C014      ; 4 x (map, shift): down, up, left, right
wWarps       equ $C01C      ; list of warps in the ROM
wGrass       equ $C01E      ; creature 1, creature 2, lowest level, spread
wEncounter   equ $C022      ; chance of an encounter on this ground, of 256
wTimer       equ $C023
wShift       equ $C024      ; window shakes by this many pixels
wRowsLeft    equ $C026      ; screen rows still to be copied to the window
wRowsFrom    equ $C027
wRowsTo      equ $C029
wPhase       equ $C02C      ; what the battle does next
wFoeList     equ $C02E      ; trainer's creatures in the ROM
wFoeKind     equ $C030      ; index into the table of creatures
wFoePower    equ $C031      ; what its attacks do at least
wFoeIndex    equ $C032
wPrize       equ $C033      ; hundreds, packed decimal
wMyKind      equ $C034
wMySlot      equ $C035      ; address of the fighting creature's record
wGrew        equ $C037      ; 1: it gained a level in this fight
wResume      equ $C038      ; battle phase after the message
wKinds       equ $C040      ; creature index for each party slot
wBorder      equ $C04C      ; cell around the map
wBlitRow     equ $C04D
wBlitColumn  equ $C04E
wBlitHeight  equ $C04F
wBlitWidth   equ $C050
wNeeds       equ $C046      ; experience still needed for the next level, per slot
wControl     equ $C051      ; 1: a script has control, until it ends
wMapKeys     equ $C052      ; buttons that do nothing on this map, as wJoyIgnore
wPause       equ $C053      ; frames that a script still waits
wCutHere     equ $C055      ; bit n: shrub n of this map is cut down
wMenu        equ $C056      ; which menu is open, see constants.asm
wPurpose     equ $C057      ; what a member of the party is chosen for
wChosenSlot  equ $C058
wLength      equ $C059      ; of a list of which one is taken out
wSecret      equ $C05A      ; two: the true stairs on each floor, 1 to 3; 0 before one was told
wBoxKinds    equ $C060      ; creature index for each place in the box
wBoxNeeds    equ $C074      ; experience still needed, likewise
wSeed        equ $C0F0      ; mixed into every random number; an environment may write it

wOam         equ $C300
wCells       equ $C700      ; cells of the map and around it, 26 rows of 32 (page aligned)
wObjects     equ $CB00      ; objects of the current map, 8 bytes each

; The real game's places
wFacing      equ $C109      ; * 0 down, 4 up, 8 left, 12 right
wScreen      equ $C3A0      ; * 20x18 tiles
wMenuTop     equ $CC24      ; * where the first entry of the open menu stands: row, column
wMenuItem    equ $CC26      ; * the entry that is pointed at
wMenuLast    equ $CC28      ; *
wBagCursor   equ $CC2C      ; *
wActiveSlot  equ $CC2F      ; * party slot that fights
wListScroll  equ $CC36      ; *
wAutoSteps   equ $CD38      ; * steps that a script still walks the player
wJoyIgnore   equ $CD6B      ; * bits of buttons that do nothing
wBattleResult equ $CF0B     ; * 0 won, 1 lost, 2 draw
wFontLoaded  equ $CFC4      ; * bit 0: a text box or menu is up
wWalkCounter equ $CFC5      ; * frames left of this step
wFoeSpecies  equ $CFE5      ; *
wFoeHp       equ $CFE6      ; * 2 bytes
wFoeLevel    equ $CFF3      ; *
wFoeMaxHp    equ $CFF4      ; * 2 bytes
wBattleMon   equ $D014      ; * species, HP at +1, level at +14
wTrainerClass equ $D031     ; *
wInBattle    equ $D057      ; * 0 none, 1 wild, 2 trainer, $FF just lost
wOpponent    equ $D059      ; * species, or trainer class + 200
wGymLeader   equ $D05C      ; *
wEscaped     equ $D078      ; *
wTextBoxId   equ $D125      ; * 1 a message, $14 a question with two answers
wStepsCalm   equ $D13C      ; * steps without encounter left
wPlayerName  equ $D158      ; *
wPartyCount  equ $D163      ; *
wSpecies     equ $D164      ; * 6 and a terminator
wParty       equ $D16B      ; * 6 x 44
MON_SIZE     equ 44
MON_HP       equ 1
MON_BOXLEVEL equ 3
MON_MOVES    equ 8
MON_EXP      equ 14
MON_PP       equ 29
MON_LEVEL    equ 33
MON_MAXHP    equ 34
MON_STATS    equ 36
wOwned       equ $D2F7      ; *
wSeen        equ $D30A      ; *
wBagCount    equ $D31D      ; *
wBag         equ $D31E      ; *
wMoney       equ $D347      ; * packed decimal
wOptions     equ $D355      ; *
wBadges      equ $D356      ; *
wMap         equ $D35E      ; *
wY           equ $D361      ; *
wX           equ $D362      ; *
wLastMap     equ $D365      ; *
wTileset     equ $D367      ; *
wBlocksHigh  equ $D368      ; *
wBlocksWide  equ $D369      ; *
wConnections equ $D370      ; * right 1, left 2, down 4, up 8
wWarpCount   equ $D3AE      ; *
wWarpEntries equ $D3AF      ; * y, x, target warp, target map
wSignCount   equ $D4B0      ; *
wSigns       equ $D4B1      ; * y, x
wObjectCount equ $D4E1      ; *
wMoving      equ $D528      ; *
wDirection   equ $D52A      ; *
wHallTeams   equ $D5A2      ; *
wTownsSeen   equ $D70B      ; *
wMyStarter   equ $D717      ; *
wRefuge      equ $D719      ; * map to wake up in after a defeat
wBeatGym     equ $D72A      ; *
wStatus3     equ $D72D      ; * 3 a warp by script is under way
wStatus4     equ $D72E      ; * 2 used a centre, 3 got the starter, 5 battle over
wStatus5     equ $D730      ; * 7 a script walks the player
wStatus6     equ $D732      ; * 0 clock runs
wMoveFlags   equ $D736      ; * 6 ledge
wEvents      equ $D747      ; *
wGrassRate   equ $D887      ; *
wFoeCount    equ $D89C      ; *
wFoeMons     equ $D8A4      ; * 6 x 44
wHours       equ $DA41      ; *
wMinutes     equ $DA43      ; *
wSeconds     equ $DA44      ; *
wFrames      equ $DA45      ; *
wBoxCount    equ $DA80      ; *
wBoxSpecies  equ $DA81      ; * 20 and a terminator
wBoxMons     equ $DA96      ; * 20 x 33: the first bytes of a party record
BOX_SIZE     equ 20
BOX_MON_SIZE equ 33

hDma         equ $FF80      ; 10 bytes of code
hScrollX     equ $FFAE      ; *
hScrollY     equ $FFAF      ; *
hWindowY     equ $FFB0      ; * $90: no window but the status line
hPressed     equ $FFB3      ; *
hHeld        equ $FFB4      ; *
hRandomHigh  equ $FFD3      ; *
hRandomLow   equ $FFD4      ; *
hFrame       equ $FFD5      ; *
hVblank      equ $FFD6      ; *
hPalette     equ $FFD7
hEarly       equ $FFD9      ; 1 from the vertical blank to FIRST_LINE
hRaw         equ $FFD8      ; buttons that are down, whatever is ignored
