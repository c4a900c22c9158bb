"""What would be played is named before anything is done, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.commands.game import game_name
from Daddy.core.errors import RomError
from Daddy.pokemon.rom import cartridge_path
from tests.cluster.conftest import config_of


def test_the_game_is_named_or_refused(tmp_path: Path) -> None:
    rom = tmp_path / "PokemonRed.gb"
    given = config_of(tmp_path, training={"rom": str(rom)})
    with pytest.raises(RomError, match="cannot read the ROM"):
        game_name(given, "local")
    rom.write_bytes(cartridge_path().read_bytes())
    assert game_name(given, "slurm") == "Daddy cartridge (PokemonRed.gb)"
    rom.write_bytes(bytes(32 * 1024))
    with pytest.raises(RomError, match="not a game we know"):
        game_name(given, "slurm")
    allowed = config_of(tmp_path, training={"rom": str(rom), "allow_unknown_rom": True})
    assert game_name(allowed, "slurm").startswith("unknown ")
    assert "free cartridge" in game_name(config_of(tmp_path), "local")
    helped = config_of(tmp_path, training={"assists": "flash,money"})
    assert game_name(helped, "local").endswith("), with the assists money, flash")
    with pytest.raises(RomError, match="no ROM is configured"):
        game_name(config_of(tmp_path), "slurm")
    meant = config_of(tmp_path, training={"cartridge": True})
    assert "free cartridge" in game_name(meant, "slurm")
    assert game_name(config_of(tmp_path, training={"workload": "cartpole"}), "slurm") == "cartpole"
