"""This package builds the free cartridge, and has a scripted player that wins its game.

`__main__` builds `Daddy/pokemon/cartridge/` from `source/` with `assembler` (`reader`, `opcodes`,
`expressions`, `tiles`, `header`). `symbols` lists events, maps and boats; `maps` reads the maps of
the ROM. `player` wins the game with `game_state`, `distances` and `menus`; `named_moments` names
moments of it. `README.md` describes the game's world.
"""
