"""From what a person calls a start state to its bytes: made, recorded, brought along, or refused.

Owns the names. Looked up in this order: a file of that path, a file of that name in the folder of
states, a recording, a route that the driver plays, what a peer calls one of ours. Routes are played
once per game, driver and pyboy; the result lies on the person's shelf.
"""

from __future__ import annotations

import contextlib
import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import Final

from Daddy.core.errors import FileError, RomError
from Daddy.core.files import read_bounded, sha256_hex
from Daddy.core.rom import Rom
from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.starts.route import BEGINNING, VERSION, Route, routes
from Daddy.pokemon.starts.shelf import Shelf, shelf_of

BY_HAND: Final = "hand"
_DRIVEN = f"driver{VERSION}"
_PEERS = {"Bulbasaur": "pokedex", "has_pokedex": "pokedex"}
"""Names in the configurations of pokemonred_puffer and PWhiddy, and ours for the like."""
ATTEMPTS: Final = 3
"""Each begins a little later, so that the game's dice fall otherwise."""
_LATER_FRAMES = 7
_LARGEST = 1 << 20


def named_state(
    rom: Rom,
    name: str,
    base: Path | None = None,
    states_dir: str | os.PathLike[str] = "",
    cache_dir: str | os.PathLike[str] = "",
) -> bytes:
    """The state that `name` means; see the module. Relative paths are relative to `base`.

    RomError when there is no such state, or none that can be used.
    """
    shelf = shelf_of(rom.sha1, cache_dir)
    file = find_file(name, base, states_dir)
    if file is not None:
        return _from_file(rom, file, shelf)
    recorded = shelf.get(name, BY_HAND)
    return recorded if recorded is not None else _driven(rom, _PEERS.get(name, name), shelf)


def find_file(
    name: str, base: Path | None = None, states_dir: str | os.PathLike[str] = ""
) -> Path | None:
    """The file that `name` means: a path, or a name (with or without .state) in `states_dir`."""
    here, is_path = base or Path.cwd(), os.sep in name or "." in name
    candidates = [here / Path(name).expanduser()] if is_path else []
    if str(states_dir):
        folder = here / Path(states_dir).expanduser()
        candidates = [folder / f"{name}.state", folder / name, *candidates]
    found = next((path for path in candidates if path.is_file()), None)
    if found is None and is_path:
        raise RomError(
            f"cannot read the save state {candidates[-1]}: no such file",
            "give the path of a PyBoy save state, or one of the names: " + ", ".join(_NAMES),
        )
    return found


_NAMES = (BEGINNING, *routes(real=True))


def _from_file(rom: Rom, path: Path, shelf: Shelf) -> bytes:
    """A file is judged once; what came of it is found again by its hash."""
    try:
        data = read_bounded(path.resolve(), _LARGEST)
    except (OSError, FileError) as error:
        raise RomError(
            f"cannot read the save state {path}: {error}".partition("\n")[0],
            "a PyBoy state has about 150,000 bytes; check the path",
        ) from error
    origin = f"file{sha256_hex(data)[:24]}"
    known = shelf.get("adopted", origin)
    if known is not None:
        return known
    state = _adopted(rom, data, str(path))
    _keep(shelf, "adopted", origin, state)
    return state


@lru_cache(maxsize=4)
def _adopted(rom: Rom, data: bytes, what: str) -> bytes:
    from Daddy.pokemon.starts.foreign import adopt

    return adopt(rom, data, what)


def _driven(rom: Rom, name: str, shelf: Shelf) -> bytes:
    known = shelf.get(name, _DRIVEN)
    if known is not None:
        return known
    chain = chain_to(rom, name, shelf)
    print(f"making the start state {name!r} of {rom.name}; it is kept in {shelf.root}", flush=True)
    state = drive(rom, chain)
    _keep(shelf, name, _DRIVEN, state)
    return state


def is_driven(rom: Rom, name: str, states_dir: str = "", cache_dir: str = "") -> bool:
    """Whether `name` means a state that the driver plays to, and neither file nor recording."""
    if find_file(name, None, states_dir) is not None:
        return False
    return shelf_of(rom.sha1, cache_dir).get(name, BY_HAND) is None


def is_route(rom: Rom, name: str) -> bool:
    """Whether `name` means a state that the driver can play to. Looks at nothing but the name."""
    return _PEERS.get(name, name) in routes(rom.real)


def chain_to(rom: Rom, name: str, shelf: Shelf) -> tuple[Route, ...]:
    """The routes from power-on to `name`; RomError when nobody knows the way."""
    name, known = _PEERS.get(name, name), routes(rom.real)
    if name not in known or rom.name.startswith("unknown"):
        recorded = shelf.names(BY_HAND)
        ours = () if rom.name.startswith("unknown") else known
        raise RomError(
            f"there is no start state {name!r} of {rom.name}",
            f"known: {', '.join([BEGINNING, *ours, *recorded])}; to record one: "
            f"python -m Daddy.play --record-start {name}",
        )
    chain = [known[name]]
    while chain[0].base:
        chain.insert(0, known[chain[0].base])
    return tuple(chain)


@lru_cache(maxsize=4)
def drive(rom: Rom, chain: tuple[Route, ...]) -> bytes:
    """Play routes one after the other from power-on; RomError that names the step that failed."""
    from Daddy.pokemon.starts.driver import StuckError

    trouble: StuckError | None = None
    for attempt in range(ATTEMPTS):
        emulator = Emulator(rom.data)
        try:
            try_to_drive(emulator, rom.real, chain, attempt)
            return emulator.save_state()
        except StuckError as error:
            trouble = error
        finally:
            emulator.close()
    name = chain[-1].name
    raise RomError(
        f"the start state {name!r} of {rom.name} could not be made: {trouble and trouble.message}",
        f"play there yourself, once: python -m Daddy.play --record-start {name}; "
        f"or begin with the game itself: training.start {BEGINNING}",
    )


def try_to_drive(emulator: Emulator, real: bool, chain: tuple[Route, ...], attempt: int) -> None:
    """One attempt, counted from 0, in an emulator at power-on; StuckError when it gets nowhere."""
    from Daddy.pokemon.starts.driver import Driver

    emulator.wait(1 + _LATER_FRAMES * attempt)
    for route in chain:
        Driver(emulator, real).drive(route)


def _keep(shelf: Shelf, name: str, origin: str, state: bytes) -> None:
    """A shelf that cannot be written costs the next start a second, not this one its life."""
    with contextlib.suppress(OSError):
        shelf.put(name, origin, state)
        return
    print(f"warning: {shelf.root} cannot be written: made anew each time", file=sys.stderr)
