"""Makes environments with an archive, and plays them to milestones with the scripted player."""

from pathlib import Path
from typing import Any

from Daddy.pokemon.archive.archive_decisions import ArchiveRules
from Daddy.pokemon.archive.archive_env import ArchiveAccess, ArchivedEnv
from scripts.cartridge.player import BUTTONS, Player, read_facts


def archived(root: Path, rules: ArchiveRules, slot: int = 0, **options: Any) -> ArchivedEnv:
    """Make an environment on the cartridge whose archive is in `root`."""
    return ArchivedEnv(access=ArchiveAccess(root, rules, slot=slot, release="test"), **options)


def advance(env: ArchivedEnv, milestones: int, most: int = 400) -> list[dict[str, Any]]:
    """Play with the scripted player until `milestones` are held; return the infos of its steps."""
    player, infos = Player(env.rom.data), []
    for _ in range(most):
        if milestones_of(env) >= milestones:
            return infos
        infos.append(env.step(_next_key(env, player))[4])
    raise AssertionError(f"{milestones_of(env)} milestones after {most} steps")


def meet_somebody(env: ArchivedEnv, most: int = 400) -> None:
    """Play with the scripted player until a fight begins."""
    player = Player(env.rom.data)
    for _ in range(most):
        if env.progress.battle:
            return
        env.step(_next_key(env, player))
    raise AssertionError(f"no fight in {most} steps")


def win(env: ArchivedEnv, most: int = 6_000) -> dict[str, Any]:
    """Play with the scripted player until it wins; return the info of its last step."""
    player = Player(env.rom.data)
    for _ in range(most):
        *_, won, _, info = env.step(_next_key(env, player))
        if won:
            return info
    raise AssertionError(f"not won after {most} steps")


def _next_key(env: ArchivedEnv, player: Player) -> int:
    facts = read_facts(
        lambda address: env._emulator.ram(((address, address + 1),))[address - 0xC000]
    )
    return BUTTONS.index(player.next_button(facts))


def milestones_of(env: ArchivedEnv) -> int:
    facts = dict(zip(env.telemetry_names, env.telemetry(), strict=True))
    return int(facts["milestones"])
