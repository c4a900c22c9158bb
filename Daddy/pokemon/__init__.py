"""The game as a Gymnasium environment, and nothing about learning.

`env.PokemonRedEnv` is made of: `rom` (where the game file lies), `emulator` (door to pyboy),
`starts/` (where episodes begin); of what turns bytes into facts: `ram_map` (addresses), `memory`
(numbers out of bytes), `party`, `bag`, `position`, `progress` (all of one moment), `ladder` and
`story` (the steps of the game, and which hold now), `reading` (all of it as a table for people); of
`visited` (exploration memory), `observation` (facts become arrays), `reward` (facts become named
reward parts) and `save_state` (an environment as bytes). `registration` tells gymnasium the name,
`map_names` names the maps for people. `archive/` keeps save states by milestone and goes back to
them; `assists/` plays a part by rules where that is asked for; `inputs/` is what was played
as data, `recordings/` plays it again;
`cartridge/` holds the free game that everything runs on by default.
"""
