"""The game as a Gymnasium environment, and nothing about learning.

`env.PokemonRedEnv` uses `rom` (the game file), `emulator` (pyboy), `starts/` (start states) and
`cutscene` (waiting for scripts). Facts are read from bytes by `memory`, `party`, `bag` and
`progress`, at the addresses of `ram_map`; `ladder` and `story` name the steps of the game, and
`map_names` the maps. `observation`, `reward`, `exploration` and `save_state` make arrays, rewards
and bytes of them; `bounded` reads bytes from elsewhere. `registration` tells gymnasium the name.

`archive/` keeps save states by milestone; `assists/` plays a part by rules; `inputs/` is play as
data, and `recordings/` plays it again; `cartridge/` is the free game that runs by default.
"""
