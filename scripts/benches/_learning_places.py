"""Where runs begin: moments of the cartridge that its scripted player is brought to.

What the bench asks of the cartridge is read from the package: its story, whom to speak to, its
maps. A place that it does not have is None, and the part that needs it is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from Daddy.core.errors import DaddyError
from Daddy.core.files import sha256_hex, write_atomic
from Daddy.core.rom import Rom, load_rom
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon import story
from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.progress import Progress, read_progress
from Daddy.pokemon.starts.boot import beginning
from scripts.cartridge.build import LEAN, build
from scripts.cartridge.distances import STEPS
from scripts.cartridge.maps import COUNTER, LEDGE, WALK, Atlas, MapPlan
from scripts.cartridge.player import QUEST, Player, read_facts
from scripts.cartridge.symbols import STORY

_LONGEST_GAME = 20_000
_TAUGHT = "_taught"


@dataclass(frozen=True)
class Span:
    """Two milestones: a run begins where the first was just reached and aims at the second."""

    begin: str
    goal: str


def errand() -> Span | None:
    """Somebody asks for a thing of another map and waits for it: three flags of the story."""
    flags = [(flag.name, QUEST[flag.name]) for flag in STORY]
    for (asked, who), (_, there), (brought, again) in zip(
        flags, flags[1:], flags[2:], strict=False
    ):
        if who == again and there.map != who.map:
            return Span(asked.lower(), brought.lower())
    return None


def obstacle() -> Span | None:
    """What is open only once a move was taught: the milestones before and after the teaching."""
    names = story.names(real=False)
    taught = next((at for at, name in enumerate(names) if name.endswith(_TAUGHT)), None)
    return None if taught is None else Span(names[taught - 1], names[taught + 1])


def game(folder: Path) -> Path:
    """Our cartridge without its busy work, as a file of `folder`."""
    image, _ = build(LEAN)
    path = folder / f"{sha256_hex(image)[:12]}.gb"
    write_atomic(path, image)
    return path


def start(rom: Path, milestone: str) -> Path:
    """A save state beside `rom`: the first free moment after `milestone` was reached."""
    state = moment(load_rom(rom), milestone)
    path = rom.with_name(f"{milestone}-{sha256_hex(state)[:12]}.state")
    write_atomic(path, state)
    return path


@lru_cache(maxsize=64)
def moment(rom: Rom, milestone: str) -> bytes:
    """The scripted player's game where it has just reached `milestone` and may walk on."""
    return next(_moments(rom, lambda held: milestone in held), b"") or _missing(milestone)


@lru_cache(maxsize=64)
def moment_of_rank(rom: Rom, rank: int) -> bytes:
    """The same where it holds so many milestones."""
    return next(_moments(rom, lambda held: len(held) >= rank), b"") or _missing(f"{rank} of them")


def _missing(what: str) -> bytes:
    raise DaddyError(f"the scripted player never reached {what}", "see tests/cartridge")


def _moments(rom: Rom, wanted: Callable[[frozenset[str]], bool]) -> Iterator[bytes]:
    """The states of moments with the `wanted` milestones at which the player is free to walk."""
    emulator, player = Emulator(rom.data), Player(rom.data)
    try:
        emulator.load_state(beginning(rom))
        for _ in range(_LONGEST_GAME):
            image = bytes(emulator.ram(ram.WHOLE))
            now = read_progress(image)
            if _is_free(now) and wanted(story.reached(now, rom.real)):
                yield emulator.save_state()
            emulator.press(player.next_button(read_facts(partial(_byte, image))))
    finally:
        emulator.close()


def _byte(image: bytes, address: int) -> int:
    return image[address - ram.RAM_START]


def _is_free(now: Progress) -> bool:
    return now.placed and not (now.text_box or now.battle or now.joypad_ignored)


def walled_in(atlas: Atlas, number: int) -> tuple[int, int]:
    """A cell (row, column) of a map with nothing in reach in any direction; DaddyError if none."""
    plan = atlas.maps[number]
    for y in range(plan.height):
        for x in range(plan.width):
            if not any(_leads_out(atlas, plan, y, x, button) for button in STEPS):
                return y, x
    raise DaddyError(f"map {number} has no cell to be walled in", "take another milestone")


def _leads_out(atlas: Atlas, plan: MapPlan, y: int, x: int, button: str) -> bool:
    down, right = STEPS[button]
    y, x = y + down, x + right
    if not (0 <= y < plan.height and 0 <= x < plan.width):
        return button in plan.links
    return bool(atlas.rules[plan.cells[y][x]] & (WALK | LEDGE | COUNTER))
