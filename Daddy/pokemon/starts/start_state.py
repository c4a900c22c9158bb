"""Finds or makes the state that episodes begin from: clicked through to, named, or from a file.

A name is looked up in this order: ``beginning``, a file of that path, a file of that name in the
folder of states, a moment recorded by hand, a route that is played by rules, a peer's name for one
of ours. Routes are played once per game, version of the routes and pyboy; the result is kept on the
person's shelf. Making a state is bounded, and ends in an error instead of an agent that spends its
life on the title screen.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from functools import lru_cache, partial
from itertools import cycle
from pathlib import Path
from typing import Final

from Daddy.core.atomic_files import read_bounded, sha256_hex
from Daddy.core.errors import FileError, RomError
from Daddy.core.rom_identity import Rom
from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.starts.playability_check import convert_foreign_state
from Daddy.pokemon.starts.player_view import STEERING, read_view
from Daddy.pokemon.starts.route_player import RoutePlayer, StuckError
from Daddy.pokemon.starts.start_routes import BEGINNING, ROUTES_VERSION, StartRoute, routes_by_name
from Daddy.pokemon.starts.start_state_folder import StartStateFolder, open_state_folder

StrPath = str | os.PathLike[str]
BY_HAND: Final = "hand"
_PLAYED = f"driver{ROUTES_VERSION}"
_PEERS = {"Bulbasaur": "pokedex", "has_pokedex": "pokedex"}
"""Names in the configurations of pokemonred_puffer and PWhiddy, and ours for the like."""
_NAMES = (BEGINNING, *routes_by_name(real=True))
ATTEMPTS: Final = 3
"""Each begins a little later, so that the game's dice fall otherwise."""
_LATER_FRAMES = 7
_LARGEST = 1 << 20
_CLICK_LIMIT = 3_000
"""Clicks before giving up; the real game's introduction takes a few hundred."""
_PAUSE_FRAMES = 24
"""Frames without a key before each look, so that no key is down when the game begins."""


def start_state(rom: Rom, start: StrPath | None = None) -> bytes:
    """The save state that episodes begin from; see the module for `start`.

    An empty one is ``pokedex`` of the real game and the beginning of any other.
    RomError when there is no such state, or none that can be used.
    """
    name = str(start or "") or default_start_name(rom)
    if name == BEGINNING:
        return beginning_state(rom)
    shelf = open_state_folder(rom.sha1)
    file = find_state_file(name)
    if file is not None:
        return _from_file(rom, file, shelf)
    recorded = shelf.read_verified(name, BY_HAND)
    return recorded if recorded is not None else _played(rom, _PEERS.get(name, name), shelf)


def default_start_name(rom: Rom) -> str:
    """The meaning of an empty setting: the best peer's start, and the cartridge's beginning."""
    return "pokedex" if rom.real else BEGINNING


# -- the beginning


@lru_cache(maxsize=4)
def beginning_state(rom: Rom) -> bytes:
    """Save state of the first moment a player can walk; RomError when the game does not begin."""
    with closing(Emulator(rom.data)) as emulator:
        play_introduction(emulator, rom.real)
        return emulator.dump_state()


def play_introduction(emulator: Emulator, real: bool) -> None:
    """Play from power-on to the beginning, with A and START in turn. RomError."""
    for _, button in zip(range(_CLICK_LIMIT), cycle(("a", "start")), strict=False):
        emulator.wait(_PAUSE_FRAMES)
        if _begun(emulator, real):
            emulator.wait(_PAUSE_FRAMES)
            return
        emulator.press(button)
    raise RomError(
        f"the game did not begin after {_CLICK_LIMIT} clicks on its title screen",
        "give a save state of a begun game (setting training.start), or check the ROM",
    )


def _begun(emulator: Emulator, real: bool) -> bool:
    """Return True once the player can walk.

    Red and Blue hold map and place before the introduction ends; only their running clock tells.
    """
    now = read_view(emulator.ram(STEERING))
    progress = now.progress
    ready = progress.placed and not progress.text_box and not progress.joypad_ignored
    return ready and (now.clock_runs or not real)


# -- files


def find_state_file(name: str) -> Path | None:
    """The file that `name` means where it is a path; RomError when there is no such file."""
    if os.sep not in name and "." not in name:
        return None
    path = Path(name).expanduser().absolute()
    if not path.is_file():
        raise RomError(
            f"cannot read the save state {path}: no such file",
            "give the path of a PyBoy save state, or one of the names: " + ", ".join(_NAMES),
        )
    return path


def _from_file(rom: Rom, path: Path, shelf: StartStateFolder) -> bytes:
    """A file is judged once; the result is found again by the file's hash."""
    try:
        data = read_bounded(path.resolve(), _LARGEST)
    except (OSError, FileError) as error:
        raise RomError(
            f"cannot read the save state {path}: {error}".partition("\n")[0],
            "a PyBoy state has about 150,000 bytes; check the path",
        ) from error
    origin = f"file{sha256_hex(data)[:24]}"
    return shelf.get_or_make("adopted", origin, lambda: convert_foreign_state(rom, data, str(path)))


# -- routes


def _played(rom: Rom, name: str, shelf: StartStateFolder) -> bytes:
    def make() -> bytes:
        chain = _chain_to(rom, name, shelf)
        kept = f"it is kept in {shelf.root}"
        print(f"making the start state {name!r} of {rom.name}; {kept}", flush=True)
        return play_routes(rom, chain)

    return shelf.get_or_make(name, _PLAYED, make)


def attempts_to_reach(rom: Rom, name: str) -> list[Callable[[Emulator], None]]:
    """Functions that play an emulator from power-on to a start state; RomError, StuckError.

    None of them may lead to the very state that is kept. The list is empty for a file or a state
    recorded by hand.
    """
    if name == BEGINNING:
        return [partial(play_introduction, real=rom.real)]
    shelf = open_state_folder(rom.sha1)
    if find_state_file(name) or shelf.read_verified(name, BY_HAND) is not None:
        return []
    return _attempts(rom, _chain_to(rom, _PEERS.get(name, name), shelf))


def _chain_to(rom: Rom, name: str, shelf: StartStateFolder) -> tuple[StartRoute, ...]:
    """The routes from power-on to `name`; RomError for a name without a route."""
    known = {} if rom.name.startswith("unknown") else routes_by_name(rom.real)
    if name not in known:
        raise RomError(
            f"there is no start state {name!r} of {rom.name}",
            f"known: {', '.join([BEGINNING, *known, *shelf.state_names(BY_HAND)])}; to record one: "
            f"python -m Daddy.play --record-start {name}",
        )
    chain = [known[name]]
    while chain[0].base:
        chain.insert(0, known[chain[0].base])
    return tuple(chain)


@lru_cache(maxsize=4)
def play_routes(rom: Rom, chain: tuple[StartRoute, ...]) -> bytes:
    """Play routes one after the other from power-on; RomError that names the step that failed."""
    trouble = ""
    for attempt in _attempts(rom, chain):
        try:
            with closing(Emulator(rom.data)) as emulator:
                attempt(emulator)
                return emulator.dump_state()
        except StuckError as error:
            trouble = error.message
    name = chain[-1].name
    raise RomError(
        f"the start state {name!r} of {rom.name} could not be made: {trouble}",
        f"play there yourself, once: python -m Daddy.play --record-start {name}; "
        f"or begin with the game itself: training.start {BEGINNING}",
    )


def _attempts(rom: Rom, chain: tuple[StartRoute, ...]) -> list[Callable[[Emulator], None]]:
    delays = (1 + _LATER_FRAMES * attempt for attempt in range(ATTEMPTS))
    return [partial(_attempt, real=rom.real, chain=chain, delay=delay) for delay in delays]


def _attempt(emulator: Emulator, real: bool, chain: tuple[StartRoute, ...], delay: int) -> None:
    emulator.wait(delay)
    for route in chain:
        RoutePlayer(emulator, real).play_route(route)
