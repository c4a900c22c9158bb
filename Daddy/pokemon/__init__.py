"""This package holds the game as a Gymnasium environment, and nothing about learning.

`env.PokemonRedEnv` uses `find_rom` (the game file), `emulator` (pyboy), `starts/` (start states)
and `cutscene` (waiting for scripts). `memory_decoding`, `party`, `bag` and `game_progress` read
facts from memory at the addresses of `ram_map`; `story_order` and `story_milestones` name the
events of the story, and `map_names` the maps. `observation`, `reward`, `exploration` and
`env_state_format` make arrays, rewards and bytes of the facts; `bounded_decoding` checks untrusted
bytes; `registration` registers the environment with gymnasium.

`archive/` keeps save states by milestone; `assists/` does parts of the game by rules; `inputs/`
encodes recordings, and `recordings/` plays them; `cartridge/` is the free default game.
"""
