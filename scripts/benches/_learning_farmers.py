"""Scripted players that farm: each does again and again what ought to earn about nothing.

Beside them, in the same environment, what keys at random and a straight player earn. Everybody's
earnings are told by part of the reward: what a farmer earns besides its farming is seen as that.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from Daddy.core.rom import load_rom
from Daddy.core.settings import Reward
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon import story
from Daddy.pokemon.memory import byte
from Daddy.pokemon.progress import Progress
from scripts.benches._learning_places import start
from scripts.cartridge import player
from scripts.cartridge.distances import Place, stands
from scripts.cartridge.maps import GRASS, WALK, Atlas, read_atlas
from scripts.cartridge.player import BEDS, BUTTONS, QUEST, Facts, Player
from scripts.cartridge.symbols import MAPS, STORY

NAME = "farmers"
STEPS, QUICK_STEPS = 8_192, 256
SPAN = 1_024
"""Steps after which the memory is forgotten: often, for whoever would live on that."""
_LENT = "got_key"
"""The milestone with which one has what the borrower wants."""
_HURT = 0.9
"""Part of the party's hit points below which the one who farms beds goes to one."""
Press = Callable[[Facts], str]
Deed = Callable[[Progress, Progress], bool]
"""Whether a step did what the farmer is after."""


@dataclass(frozen=True)
class Farmer:
    """Who begins where a milestone was reached ("" the game's start), and what it counts."""

    name: str
    begin: str
    press: Press
    deed: Deed


class Rounds(Player):
    """Goes from place to place and round again, and speaks where it has but one."""

    def __init__(self, rom: bytes, *places: Place) -> None:
        super().__init__(rom)
        self._places, self._next = places, 0

    def goal(self, facts: Facts) -> Place:
        """Where to go now."""
        if facts.place in stands(self.atlas, self._places[self._next]):
            self._next = (self._next + 1) % len(self._places)
        return self._places[self._next]


class Grazer(Rounds):
    """Walks through tall grass, and goes to bed with every scratch."""

    def goal(self, facts: Facts) -> Place:
        """The nearest bed, or the next patch."""
        return self._nearest_bed(facts) if facts.health < _HURT else super().goal(facts)


class Storer(Rounds):
    """Speaks to the machine and tries all that its menus offer."""

    def __init__(self, rom: bytes, machine: Place) -> None:
        super().__init__(rom, machine)
        self._dice = random.Random(0)

    def next_button(self, facts: Facts) -> str:
        """As the player's, but for the menus."""
        if getattr(facts, "menu", None) is None:
            return super().next_button(facts)
        return self._dice.choice(("a", "a", "down"))


def run(rom_path: Path, quick: bool) -> dict[str, Any]:
    """Reward per 1,000 steps of everybody, by part, and how often each did its deed."""
    rom = load_rom(rom_path).data
    steps = QUICK_STEPS if quick else STEPS
    told = {one.name: _watch(rom_path, one, steps) for one in farmers(rom)}
    return {"steps_each": steps, "memory_steps": SPAN, **told}


def farmers(rom: bytes) -> Iterator[Farmer]:
    """The yardsticks, then those whose place the cartridge has."""
    atlas, dice = read_atlas(rom), random.Random(0)
    first = story.names(real=False)[2]
    yield Farmer("straight player", "", Player(rom).next_button, _never)
    yield Farmer("random keys", "", lambda _: dice.choice(BUTTONS), _never)
    yield Farmer("idle", first, lambda _: "b", lambda *_: True)
    yield Farmer("reset", first, _Pacing(), lambda was, now: (was.y, was.x) != (now.y, now.x))
    for begin, grass in _fields(atlas):
        yield Farmer("heal", begin, Grazer(rom, *grass).next_button, _was_healed)
    for begin, machine in _machines(atlas):
        yield Farmer("store away", begin, Storer(rom, machine).next_button, _was_stored)
    for begin, who in _receivers():
        yield Farmer("hand over", begin, Rounds(rom, who).next_button, _was_handed)


class _Pacing:
    """To and fro between cells that are known: after each forgetting they are new again."""

    def __init__(self) -> None:
        self._steps = 0

    def __call__(self, facts: Facts) -> str:
        self._steps += 1
        return "b" if facts.text_box else ("left", "right")[self._steps // 2 % 2]


def _fields(atlas: Atlas) -> Iterator[tuple[str, tuple[Place, Place]]]:
    """The first fight on a map with tall grass, and two far cells of it: whoever walks is hurt."""
    for flag in STORY:
        plan = atlas.maps[QUEST[flag.name].map]
        grass = [
            Place(plan.number, y, x)
            for y, row in enumerate(plan.cells)
            for x, cell in enumerate(row)
            if atlas.rules[cell] & GRASS and atlas.rules[cell] & WALK
        ]
        if flag.name.startswith("BEAT") and grass:
            yield flag.name.lower(), (grass[0], grass[-1])
            return


def _machines(atlas: Atlas) -> Iterator[tuple[str, Place]]:
    """Who stands in a rest house and gives no bed, and the first milestone of that town."""
    for number in (one.number for one in MAPS if "REST HOUSE" in one.name):
        plan = atlas.maps[number]
        things = {Place(number, thing.y, thing.x) for thing in plan.things} - set(BEDS)
        town = {warp.to for warp in plan.warps}
        for flag in STORY if things else ():
            there = atlas.maps[QUEST[flag.name].map]
            if town & {there.number, *(warp.to for warp in there.warps)}:
                yield flag.name.lower(), min(things)
                return


def _receivers() -> Iterator[tuple[str, Place]]:
    """Who borrows a thing and gives it back, again and again; else the last one who got one."""
    borrower = getattr(player, "BORROWER", None)
    brought = [flag.name for flag in STORY if flag.name.endswith("_BROUGHT")]
    if borrower is not None:
        yield _LENT, borrower
    elif brought:
        yield brought[-1].lower(), QUEST[brought[-1]]


def _never(_was: Progress, _now: Progress) -> bool:
    return False


def _was_healed(was: Progress, now: Progress) -> bool:
    from Daddy.pokemon.exploration import healed

    return healed(was, now) > 0


def _was_stored(was: Progress, now: Progress) -> bool:
    return byte(was.image, ram.BOX_COUNT) != byte(now.image, ram.BOX_COUNT)


def _was_handed(was: Progress, now: Progress) -> bool:
    """A thing less or more, or at least a word about it."""
    return was.item_bits != now.item_bits or (now.text_box and not was.text_box)


def _watch(rom: Path, farmer: Farmer, steps: int) -> dict[str, Any]:
    from scripts.benches._learning_game import OpenGame

    begin = start(rom, farmer.begin) if farmer.begin else None
    weights = Reward(memory_steps=SPAN)
    options: dict[str, Any] = {"init_state": begin, "cache_dir": rom.parent, "weights": weights}
    env, earned = OpenGame(rom, episode_steps=steps + 1, **options), list[dict[str, float]]()
    won, deeds = False, 0
    try:
        env.reset(seed=0)
        while len(earned) < steps and not won:
            was = env.progress
            _, _, won, _, info = env.step(BUTTONS.index(farmer.press(env.facts())))
            earned.append(info["reward_parts"])
            deeds += farmer.deed(was, env.progress)
    finally:
        env.close()
    return {**_told(earned), "deeds": deeds}


def _told(earned: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """All of it, and its second half: by then whoever farms is where its farm is."""
    whole, late = _per_1000(earned), _per_1000(earned[len(earned) // 2 :])
    return {
        "steps": len(earned),
        "reward_per_1000": round(sum(whole.values()), 2),
        "in_the_second_half": round(sum(late.values()), 2),
        "by_part": str(whole),
        "by_part_in_the_second_half": str(late),
    }


def _per_1000(earned: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Reward of 1,000 steps by part, the largest first."""
    total = Counter[str]()
    for parts in earned:
        total.update(parts)
    return {part: round(1000 * value / len(earned), 3) for part, value in total.most_common()}
