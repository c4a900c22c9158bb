"""How a start state comes about from power-on, as the beginning of a recording.

Promises a recorder that has the very bytes of the state as a kept moment. Where nobody knows the
way (a file, a moment kept by hand) the recording begins at the state itself: then only who has that
state can play it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from Daddy.core.rom import Rom
from Daddy.pokemon.emulator import PYBOY_VERSION, Emulator
from Daddy.pokemon.inputs.recorder import Game, Recorder
from Daddy.pokemon.starts.boot import click_through, default_start, start_state
from Daddy.pokemon.starts.route import BEGINNING


def recorder_of(rom: Rom) -> Recorder:
    """A recorder for an emulator at power-on."""
    return Recorder(Game(rom.sha1, rom.name, PYBOY_VERSION))


def recorder_at(rom: Rom, start: str = "", states_dir: str = "", cache_dir: str = "") -> Recorder:
    """A recorder for an emulator that is about to load the start state; RomError.

    The other arguments are those of `starts.boot.start_state`.
    """
    state = start_state(rom, start, None, states_dir, cache_dir)
    for recorder, reached in _ways(rom, start or default_start(rom), states_dir, cache_dir):
        if reached == state:
            return recorder
    recorder = recorder_of(rom)
    recorder.loads(state, bytes)
    return recorder


def _ways(rom: Rom, name: str, states_dir: str, cache_dir: str) -> Iterator[tuple[Recorder, bytes]]:
    """Every way that could have led to the state, and the state it leads to."""
    from Daddy.pokemon.starts.named import is_driven

    if name == BEGINNING:
        yield from _way(rom, partial(click_through, real=rom.real))
    elif is_driven(rom, name, states_dir, cache_dir):
        yield from _driven_ways(rom, name, cache_dir)


def _driven_ways(rom: Rom, name: str, cache_dir: str) -> Iterator[tuple[Recorder, bytes]]:
    from Daddy.pokemon.starts.named import ATTEMPTS, chain_to, try_to_drive
    from Daddy.pokemon.starts.shelf import shelf_of

    chain = chain_to(rom, name, shelf_of(rom.sha1, cache_dir))
    for attempt in range(ATTEMPTS):
        yield from _way(rom, partial(try_to_drive, real=rom.real, chain=chain, attempt=attempt))


def _way(rom: Rom, play: Callable[[Emulator], None]) -> Iterator[tuple[Recorder, bytes]]:
    from Daddy.pokemon.starts.driver import StuckError

    recorder = recorder_of(rom)
    emulator = Emulator(rom.data, recorder)
    try:
        play(emulator)
        yield recorder, emulator.save_state()
    except StuckError:
        return
    finally:
        emulator.close()
