"""The game as a Gymnasium environment, and nothing about learning.

`env.PokemonRedEnv` is made of: `rom` (which game file), `emulator` (door to pyboy), `boot` (from
power-on to the first step), `ram_map` and `progress` (bytes become facts), `visited` (exploration
memory), `observation` (facts become arrays), `reward` (facts become named reward parts),
`save_state` (an environment as bytes). `registration` tells gymnasium the name. `map_names` names
the maps for people. `cartridge/` holds the free game that everything runs on by default.
"""
