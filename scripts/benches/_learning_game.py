"""The environment, opened for scripts: its memory can be read, its player can be walled in."""

from __future__ import annotations

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.env import PokemonRedEnv
from scripts.benches._learning_places import walled_in
from scripts.cartridge.maps import read_atlas
from scripts.cartridge.player import Facts, read_facts


class OpenGame(PokemonRedEnv):
    """On the cartridge."""

    def facts(self) -> Facts:
        """What a scripted player looks at."""
        image = bytes(self._emulator.ram(ram.WHOLE))
        return read_facts(lambda address: image[address - ram.RAM_START])

    def close_in(self) -> None:
        """From here on no key moves the player from its cell."""
        y, x = walled_in(read_atlas(self.rom.data), self.progress.map_id)
        self._emulator.write(ram.PLAYER_Y, y)
        self._emulator.write(ram.PLAYER_X, x)
