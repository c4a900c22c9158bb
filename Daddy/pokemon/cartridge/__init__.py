"""The free game: our own Game Boy cartridge whose memory has the shape of the real game's.

`daddy.gb` is built by `build` from `source/` with `assembler`, which is made of `reader` (files,
macros), `opcodes`, `expressions`, `pictures` and `header`. `symbols` lists its events and maps,
`atlas` reads its maps back out of the ROM, `roads` says where buttons lead, `facts` what a moment
is, `menus` how to go through them, `player` wins it, and `stops` names moments of its game.
`README.md` describes the world.
"""
