"""The game as a Gymnasium environment, and nothing about learning.

`env.PokemonRedEnv` uses `find_rom` (the game file), `emulator` (pyboy), `starts/` (start states)
and `cutscene` (waiting for scripts). Facts are read from bytes by `read_memory`, `party`, `bag` and
`game_progress`, at the addresses of `ram_map`; `story_order` and `story_milestones` name the steps
of the game, and `map_names` the maps. `observation`, `reward`, `exploration` and `env_state_format`
make arrays, rewards and bytes of them; `size_limits` reads bytes from elsewhere. `registration`
tells gymnasium the name.

`archive/` keeps save states by milestone; `assists/` plays a part by rules; `inputs/` is play as
data, and `recordings/` plays it again; `cartridge/` is the free game that runs by default.
"""
