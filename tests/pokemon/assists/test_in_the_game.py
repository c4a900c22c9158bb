"""Tests assists on our cartridge in the real emulator, and in an archive."""

import json
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from Daddy.core.assist_compatibility import ASSIST_NAMES, from_bits
from Daddy.core.errors import RomError
from Daddy.pokemon import env_state_format as saving
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon import story_order
from Daddy.pokemon.archive import state_format
from Daddy.pokemon.archive.archive_decisions import ArchiveRules
from Daddy.pokemon.archive.state_format import Compatibility
from Daddy.pokemon.archive.state_keys import rank
from Daddy.pokemon.assists.apply_assists import AssistRunner
from Daddy.pokemon.assists.assist_registry import ASSISTS, Assist
from Daddy.pokemon.assists.assist_state import Intervention, StepState, state_before_key
from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.env import PokemonRedEnv
from Daddy.pokemon.game_progress import read_progress
from scripts.cartridge.player import BUTTONS, Player, read_facts
from tests.pokemon.archive.players import advance, archived
from tests.pokemon.assists.test_decisions import ready
from tests.pokemon.lookalike import lookalike

Make = Callable[..., PokemonRedEnv]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    monkeypatch.delenv("DADDY_ROM", raising=False)
    made: list[PokemonRedEnv] = []

    def make(*assists: str, seed: int = 1, **options: Any) -> PokemonRedEnv:
        made.append(PokemonRedEnv(assists=assists, **options))
        made[-1].reset(seed=seed)
        return made[-1]

    yield make
    for env in made:
        env.close()


def play(env: PokemonRedEnv, steps: int) -> tuple[int, list[str], list[tuple[Any, ...]]]:
    """Play the scripted player; return wild fights, the assists' messages and every step."""
    player, fights, before = Player(env.rom.data), 0, env.progress.battle
    said: list[str] = []
    outcomes: list[tuple[Any, ...]] = []
    for _ in range(steps):
        facts = read_facts(
            lambda address: env._emulator.ram(((address, address + 1),))[address - ram.RAM_START]
        )
        _, reward, won, late, info = env.step(BUTTONS.index(player.next_button(facts)))
        fights += env.progress.battle == 1 and before != 1
        before = env.progress.battle
        said += info.get("helped", ())
        outcomes.append((reward, won, late, info["reward_parts"], env.telemetry()))
    return fights, said, outcomes


def told(env: PokemonRedEnv, column: str) -> tuple[str, ...]:
    return from_bits(int(dict(zip(env.telemetry_names, env.telemetry(), strict=True))[column]))


def test_nothing_wild_appears_where_it_would_have(make: Make) -> None:
    assert play(make(), 800)[0] > 0
    env = make("no_wild")
    assert play(env, 800)[0] == 0
    assert told(env, "assists") == told(env, "assists_used") == ("no_wild",)
    assert told(env, "assists_off") == ()


def test_a_bag_that_was_emptied_leaves_the_game_as_it_was(make: Make) -> None:
    envs = make("toss_junk"), make()
    paper, _ = ready("toss_junk")
    for address in (ram.BAG_COUNT, *range(ram.BAG, ram.BAG + 41)):
        envs[0]._emulator.write(address, paper.moment().read_byte(address))
    envs[0].load_state(envs[0].save_state())
    assert envs[0].progress.items == 20
    _, said, _ = play(envs[0], 200)
    play(envs[1], 200)
    assert [words.split(":")[0] for words in said] == ["toss_junk"]
    assert envs[0].progress.story_flags > 0
    assert envs[0].progress.bag == envs[1].progress.bag
    assert envs[0].progress == envs[1].progress


class Deaf:
    """A game in which writing to one address has no effect."""

    def __init__(self, emulator: Emulator, address: int) -> None:
        self._emulator, self._address = emulator, address

    def ram(self, blocks: Iterable[tuple[int, int]]) -> bytearray:
        return self._emulator.ram(blocks)

    def write(self, address: int, value: int) -> None:
        if address != self._address:
            self._emulator.write(address, value)


def test_where_it_has_no_effect_three_wild_fights_end_it_also_in_later_episodes(make: Make) -> None:
    env = make("no_wild")
    env._assists = AssistRunner(Deaf(env._emulator, ram.NO_BATTLE_STEPS), ("no_wild",))
    fights, said, _ = play(env, 1_200)
    failures = [words for words in said if "failed" in words]
    assert fights >= 3
    assert failures == ["no_wild: failed"] * 2 + ["no_wild: failed; it is disabled"]
    assert said[-1] == failures[-1]
    assert told(env, "assists_off") == ("no_wild",)
    env.reset()
    assert told(env, "assists_off") == ("no_wild",)
    assert told(env, "assists_used") == ()


def test_what_an_assist_changes_pays_nothing(make: Make) -> None:
    rewards = [[outcome[:4] for outcome in play(env, 12)[2]] for env in (make(), make("money"))]
    assert rewards[0] == rewards[1]
    env = make("money")
    env.step(0)
    assert env.progress.money == 100_000


def test_an_event_that_an_assist_sets_is_not_paid_and_one_that_happens_is(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = story_order.STORY[10].flag

    def happen(now: StepState) -> Intervention | None:
        return (
            None if now.has_event(event) else Intervention("it happens", (now.event_write(event),))
        )

    monkeypatch.setitem(ASSISTS, "flute", Assist(happen, ()))
    helped, alone, plain = make("flute"), make(), make()
    alone._emulator.write(
        *state_before_key(alone.progress, alone.progress.image, "a").event_write(event)
    )
    paid = [env.step(0)[1] for env in (helped, alone, plain)]
    assert paid[0] == paid[2] < paid[1]
    assert [env.progress.events >> event & 1 for env in (helped, alone, plain)] == [1, 1, 0]
    assert len({env.step(0)[1] for env in (helped, alone, plain)}) == 1


def test_assisted_episodes_are_equal_and_go_on_exactly_from_a_state(make: Make) -> None:
    first, second = make("money", "no_wild"), make("money", "no_wild")
    assert play(first, 60) == play(second, 60)
    third = make("money", "no_wild", "flash", seed=9)
    third.load_state(first.save_state())
    ends = [play(env, 60) for env in (first, third)]
    assert ends[0][:2] == ends[1][:2]
    assert [end[:4] for end in ends[0][2]] == [end[:4] for end in ends[1][2]]


@pytest.mark.parametrize("take", ["load_state", "adopt_game"])
def test_a_game_without_assists_takes_no_assisted_state(make: Make, take: str) -> None:
    assisted = make("money", "flash").save_state()
    env, twin = make(), make()
    with pytest.raises(RomError, match="the assists flash, money, which are not in use here"):
        getattr(env, take)(assisted)
    assert play(env, 20) == play(twin, 20)
    getattr(make("money", "flash", "flute"), take)(assisted)
    getattr(make("money"), take)(make().save_state())


def test_states_of_before_there_were_assists_are_read(make: Make) -> None:
    env = make()
    data = env.save_state()
    head = struct.Struct("<8sIII")
    magic, length, *blobs = head.unpack_from(data)
    facts = json.loads(data[head.size :][:length])
    del facts["assists"]
    header = json.dumps(facts).encode()
    older = head.pack(magic, len(header), *blobs) + header + data[head.size + length :]
    assert saving.decode_env_state(older, env.rom.sha1, facts["pyboy"]).assists == {}
    make("money").load_state(older)


@pytest.mark.parametrize("name", ASSIST_NAMES)
def test_every_act_reaches_the_memory_of_a_running_console(name: str, console: Emulator) -> None:
    paper, button = ready(name)
    at = [address for first, end in _SEEN for address in range(first, end)]
    for address in at:
        console.write(address, paper.moment().read_byte(address))
    progress = read_progress(console.ram(ram.WHOLE))
    assert progress == paper.progress
    act = ASSISTS[name].decide(paper.moment(button))
    assert act is not None
    done = AssistRunner(console, (name,)).act_before_key(progress, button)
    paper.apply(act)
    console.wait(2)
    after = console.ram(ram.WHOLE)
    assert [after[address - ram.RAM_START] for address in at] == [
        paper.moment().read_byte(address) for address in at
    ]
    assert done.button == (act.button or button)


_SEEN = (
    *((ram.TILES, ram.TILES + 360), (ram.BAG_CURSOR, ram.BAG_CURSOR + 1)),
    *((ram.WALKED_BY_GAME, ram.WALKED_BY_GAME + 1), (ram.FONT_LOADED, ram.WALK_COUNTER + 1)),
    (ram.MAP_SCRIPT_FLAGS, ram.PLAY_TIME + ram.PLAY_TIME_BYTES),
)


@pytest.fixture(scope="module")
def console() -> Iterator[Emulator]:
    emulator = Emulator(lookalike())
    emulator.wait(30)
    yield emulator
    emulator.close()


# -- the archive


@pytest.fixture
def _no_rom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DADDY_ROM", raising=False)


@pytest.mark.usefixtures("_no_rom")
def test_assisted_states_say_so_and_only_runs_with_these_assists_load_them(tmp_path: Path) -> None:
    assisted = archived(tmp_path, ArchiveRules(), assists=("money",))
    assisted.reset(seed=1)
    advance(assisted, 2)
    assisted.close()
    (folder,) = tmp_path.iterdir()
    paths = sorted(folder.glob("r*.state"))
    kin = Compatibility(assisted.rom.sha1, "2.7.0", ASSIST_NAMES)
    assert paths
    assert {state_format.decode_state(path.read_bytes(), kin, "")[0].assists for path in paths} == {
        ("money",)
    }
    honest = archived(tmp_path, ArchiveRules(starts=True, fresh=0.0))
    _, info = honest.reset(seed=1)
    assert "it was reached with the assists money" in info["archive"]
    assert honest.telemetry()[honest.telemetry_names.index("loads")] == 0
    honest.close()
    other = archived(tmp_path, ArchiveRules(starts=True, fresh=0.0), assists=("money", "flash"))
    other.reset(seed=1)
    assert other.telemetry()[other.telemetry_names.index("loads")] == 1
    assert told(other, "assists_used") == ("money",)
    other.close()


@pytest.mark.usefixtures("_no_rom")
def test_children_of_an_honest_state_say_what_helped_them(tmp_path: Path) -> None:
    honest = archived(tmp_path, ArchiveRules())
    honest.reset(seed=1)
    advance(honest, 1)
    honest.close()
    child = archived(tmp_path, ArchiveRules(starts=True, fresh=0.0), assists=("no_wild",))
    child.reset(seed=1)
    advance(child, 3)
    child.close()
    (folder,) = tmp_path.iterdir()
    kin = Compatibility(child.rom.sha1, "2.7.0", ASSIST_NAMES)
    kept = [
        state_format.decode_state(path.read_bytes(), kin, "")[0] for path in folder.glob("r*.state")
    ]
    assert {provenance.assists for provenance in kept if rank(provenance.held) > 1} == {
        ("no_wild",)
    }
    assert {provenance.assists for provenance in kept if rank(provenance.held) <= 1} >= {()}
    assert np.all([provenance.origin == "played" for provenance in kept])
