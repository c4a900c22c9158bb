"""A poisoned archive: its best state, by far, is one in which no key does anything."""

from __future__ import annotations

from pathlib import Path

from Daddy.core.files import read_json, write_atomic, write_json
from Daddy.core.rom import load_rom
from Daddy.pokemon import story
from Daddy.pokemon.archive.record import Kin, Provenance
from Daddy.pokemon.archive.rules import Rules
from Daddy.pokemon.archive.store import Archive, family
from Daddy.pokemon.emulator import PYBOY_VERSION
from scripts.benches._learning_places import moment_of_rank
from scripts.benches._learning_runs import Run

AFTER, AHEAD = 5, 2
"""Put there once the fleet holds so many milestones, and holding so many more."""
GOAL = 12
"""A learner has recovered when it holds so many."""


def goal() -> str:
    """The milestone that a run from which the poison is taken as from any other would reach."""
    return story.names(real=False)[GOAL - 1]


def put_if_due(run: Run, rom_path: Path, step: int) -> None:
    """Poison the run's archive, once; that it happened stands in its folder."""
    if _note(run).exists():
        return
    rom = load_rom(rom_path)
    kin = Kin(rom.sha1, PYBOY_VERSION)
    archive = Archive(family(run.paths.archive, kin), kin, Rules())
    ranks = [entry.rank for entry in archive.look(closely=True).entries]
    if max(ranks, default=0) < AFTER:
        return
    rank = min(max(ranks) + AHEAD, GOAL - 1)
    state, held, hp = _state(run.folder, rom_path, rank)
    came = Provenance(held, "", "played", 0, 0, None, "", rom.sha1, PYBOY_VERSION, hp=hp)
    archive.put(came, state)
    write_json(_note(run), {"step": step, "rank": rank, "fleet": max(ranks)})


def note(run: Run) -> dict[str, int]:
    """When and how the run was poisoned; empty if it was not."""
    return read_json(_note(run)) if _note(run).exists() else {}


def _note(run: Run) -> Path:
    return run.folder / "poisoned.json"


def _state(folder: Path, rom_path: Path, rank: int) -> tuple[bytes, tuple[str, ...], int]:
    """An environment's state in the dead end, the milestones that it holds, its party's HP."""
    from scripts.benches._learning_game import OpenGame

    begin = folder / "before-the-trap.state"
    write_atomic(begin, moment_of_rank(load_rom(rom_path), rank))
    env = OpenGame(rom_path, init_state=begin, cache_dir=folder)
    try:
        env.reset(seed=0)
        env.close_in()
        held = tuple(sorted(story.reached(env.progress, env.rom.real)))
        return env.save_state(), held, env.progress.hp
    finally:
        env.close()
