; What each cell allows, by its number in letters.asm; and its letter, for those who draw maps.
cell_rules:
    db SOLID, WALK, WALK, WALK + GRASS, WALK, SOLID, SOLID, LEDGE, SOLID
    db SOLID, SOLID, WALK, SOLID, SOLID, SOLID, SOLID, SOLID
    db WALK + CAVE, WALK, WALK, SOLID, SOLID, SOLID, SOLID, WALK, COUNTER, SOLID, WALK, SOLID
    db WALK, SOLID
cell_letters:               ; as ASCII
    db $30, $2E, $2C, $67, $66, $54, $7E, $76, $3D, $57, $77, $44, $52, $28, $29, $53, $58
    db $3A, $4F, $5F, $4D, $74, $62, $42, $45, $43, $48, $63, $59, $70, $4B
