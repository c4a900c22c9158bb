"""Finds or makes the state that episodes begin from.

A name means, in this order: ``beginning``, a file of that path, a state recorded by hand, a route
that is played by rules; names of two other projects are known too. A route is played once per game,
version of the routes and pyboy, and its state is kept in the person's folder. Making a state takes
a limited number of keys, and then fails with an error.
"""

import os
from collections.abc import Callable
from contextlib import closing, suppress
from functools import lru_cache, partial
from itertools import cycle
from pathlib import Path
from typing import Final

from Daddy.core.atomic_files import read_bounded, sha256_hex
from Daddy.core.errors import FileError, RomError
from Daddy.core.rom_identity import Rom
from Daddy.pokemon.emulator import PYBOY_VERSION, Emulator
from Daddy.pokemon.inputs.input_recorder import InputRecorder
from Daddy.pokemon.starts.route_player import RoutePlayer, StuckError
from Daddy.pokemon.starts.route_view import STEERING, read_view
from Daddy.pokemon.starts.start_routes import BEGINNING, ROUTES_VERSION, StartRoute, routes_by_name
from Daddy.pokemon.starts.start_state_folder import StartStateFolder, open_state_folder
from Daddy.pokemon.starts.state_files import convert_foreign_state

StrPath = str | os.PathLike[str]
BY_HAND: Final = "hand"
_PLAYED = f"driver{ROUTES_VERSION}"
_OTHER_NAMES = {"Bulbasaur": "pokedex", "has_pokedex": "pokedex"}
"""Names in the configurations of pokemonred_puffer and PWhiddy, with our most similar state."""
_NAMES = (BEGINNING, *routes_by_name(real=True))
ATTEMPTS: Final = 3
"""Attempts to play a route; each begins some frames later, so that random events differ."""
_LATER_FRAMES = 7
_LARGEST = 1 << 20
_KEY_LIMIT = 3_000
"""Keys before `play_introduction` fails; the real game's introduction takes a few hundred."""
_PAUSE_FRAMES = 24
"""Frames without a key before the memory is read, so that no key is down when the game begins."""


def start_state(rom: Rom, start: StrPath | None = None) -> bytes:
    """Return the save state that episodes begin from; the module describes the names `start`.

    An empty `start` means `default_start_name`. RomError when the state is missing or unusable.
    """
    name = str(start or "") or default_start_name(rom)
    if name == BEGINNING:
        return beginning_state(rom)
    folder = open_state_folder(rom.sha1)
    file = find_state_file(name)
    if file is not None:
        return _from_file(rom, file, folder)
    recorded = folder.read_verified(name, BY_HAND)
    return recorded if recorded is not None else _played(rom, _OTHER_NAMES.get(name, name), folder)


def default_start_name(rom: Rom) -> str:
    """Return the default start state: ``pokedex`` for the real game, ``beginning`` otherwise."""
    return "pokedex" if rom.real else BEGINNING


# -- the beginning


@lru_cache(maxsize=4)
def beginning_state(rom: Rom) -> bytes:
    """Return the state in which the player can walk for the first time; RomError."""
    with closing(Emulator(rom.data)) as emulator:
        play_introduction(emulator, rom.real)
        return emulator.dump_state()


def play_introduction(emulator: Emulator, real: bool) -> None:
    """Press A and START in turn from power-on until the player can walk. RomError."""
    for _, button in zip(range(_KEY_LIMIT), cycle(("a", "start")), strict=False):
        emulator.wait(_PAUSE_FRAMES)
        if _begun(emulator, real):
            emulator.wait(_PAUSE_FRAMES)
            return
        emulator.press(button)
    raise RomError(
        f"the game did not begin after {_KEY_LIMIT} keys",
        "give a save state of a begun game (setting training.start), or check the ROM",
    )


def _begun(emulator: Emulator, real: bool) -> bool:
    """Return True once the player can walk.

    Red and Blue set map and place before the introduction ends, but start the clock afterwards.
    """
    now = read_view(emulator.ram(STEERING))
    progress = now.progress
    ready = progress.placed and not progress.text_box and not progress.joypad_ignored
    return ready and (now.clock_runs or not real)


# -- files


def find_state_file(name: str) -> Path | None:
    """Return `name` as a path, or None if it has no / and no dot. RomError if no such file."""
    if os.sep not in name and "." not in name:
        return None
    path = Path(name).expanduser().absolute()
    if not path.is_file():
        raise RomError(
            f"cannot read the save state {path}: no such file",
            "give the path of a PyBoy save state, or one of the names: " + ", ".join(_NAMES),
        )
    return path


def _from_file(rom: Rom, path: Path, folder: StartStateFolder) -> bytes:
    """Return a file's state, checked and converted; later calls find it by the file's hash."""
    try:
        data = read_bounded(path.resolve(), _LARGEST)
    except (OSError, FileError) as error:
        raise RomError(
            f"cannot read the save state {path}: {error}".partition("\n")[0],
            "a PyBoy state has about 150,000 bytes; check the path",
        ) from error
    origin = f"file{sha256_hex(data)[:24]}"
    convert = partial(convert_foreign_state, rom, data, str(path))
    return folder.get_or_make("adopted", origin, convert)


# -- routes


def _played(rom: Rom, name: str, folder: StartStateFolder) -> bytes:
    def make() -> bytes:
        chain = _chain_to(rom, name, folder)
        location = f"it is kept in {folder.root}"
        print(f"making the start state {name!r} of {rom.name}; {location}", flush=True)
        return play_routes(rom, chain)

    return folder.get_or_make(name, _PLAYED, make)


def recorder_at_start(rom: Rom, start: str = "") -> InputRecorder:
    """Return a recorder with the inputs from power-on to a start state. RomError.

    Of a file and of a state recorded by hand these inputs are unknown: the recording begins at the
    state, and can be played with that state only.
    """
    state = start_state(rom, start)
    for play in _ways_to(rom, start or default_start_name(rom)):
        recorder = InputRecorder(rom.sha1, rom.name, PYBOY_VERSION)
        with closing(Emulator(rom.data, recorder)) as emulator, suppress(StuckError):
            play(emulator)
            if emulator.dump_state() == state:
                return recorder
    recorder = InputRecorder(rom.sha1, rom.name, PYBOY_VERSION)
    recorder.record_load(state, bytes)
    return recorder


def _ways_to(rom: Rom, name: str) -> list[Callable[[Emulator], None]]:
    """List functions that play from power-on to a start state, or perhaps to a similar one."""
    if name == BEGINNING:
        return [partial(play_introduction, real=rom.real)]
    folder = open_state_folder(rom.sha1)
    if find_state_file(name) or folder.read_verified(name, BY_HAND) is not None:
        return []
    return _attempts(rom, _chain_to(rom, _OTHER_NAMES.get(name, name), folder))


def _chain_to(rom: Rom, name: str, folder: StartStateFolder) -> tuple[StartRoute, ...]:
    """Return the routes from power-on to `name`; RomError for a name without a route."""
    game_routes = {} if rom.name.startswith("unknown") else routes_by_name(rom.real)
    if name not in game_routes:
        raise RomError(
            f"there is no start state {name!r} of {rom.name}",
            f"known: {', '.join([BEGINNING, *game_routes, *folder.state_names(BY_HAND)])}; "
            f"to record one: python -m Daddy.play --record-start {name}",
        )
    chain = [game_routes[name]]
    while chain[0].base:
        chain.insert(0, game_routes[chain[0].base])
    return tuple(chain)


@lru_cache(maxsize=4)
def play_routes(rom: Rom, chain: tuple[StartRoute, ...]) -> bytes:
    """Play routes from power-on, one after another; return the state. RomError if a step fails."""
    failure = ""
    for attempt in _attempts(rom, chain):
        try:
            with closing(Emulator(rom.data)) as emulator:
                attempt(emulator)
                return emulator.dump_state()
        except StuckError as error:
            failure = error.message
    name = chain[-1].name
    raise RomError(
        f"the start state {name!r} of {rom.name} could not be made: {failure}",
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
