"""Tests scenes in which a script has control in the environment: long steps, questions."""

from collections.abc import Callable, Iterator

import pytest

from Daddy.pokemon import cutscene
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.emulator import BUTTONS, FRAMES_PER_STEP
from Daddy.pokemon.env import TELEMETRY, PokemonRedEnv
from Daddy.pokemon.memory_decoding import byte
from scripts.cartridge.named_moments import has_happened
from scripts.cartridge.symbols import STORY
from tests.cartridge.game import Game
from tests.cartridge.moments import game_at, state_at, walk_to

WAITS = TELEMETRY.index("waits")

Make = Callable[..., PokemonRedEnv]
PORT, BOAT, ISLE = 5, 94, 8
SAILOR, NURSE = (5, 11, 10), (89, 1, 4)
BOATMAN, KEEPER = (8, 15, 8), (167, 2, 3)
EGG, RIVAL, ELDER, DAD = (40, 3, 2), (40, 5, 4), (40, 3, 1), (37, 3, 5)
MOST_MASHED = 12
"""Presses of A after which a conversation is over."""


@pytest.fixture
def make() -> Iterator[Make]:
    envs: list[PokemonRedEnv] = []

    def begin(stop: str, *thing: int) -> PokemonRedEnv:
        game = walk_to(game_at(stop), *thing) if thing else game_at(stop)
        envs.append(PokemonRedEnv())
        envs[-1]._start = game.emulator.dump_state()
        envs[-1].reset(seed=1)
        game.close()
        return envs[-1]

    yield begin
    for env in envs:
        env.close()


def press(env: PokemonRedEnv, button: str) -> int:
    """Do a step; return its duration in plain steps."""
    before = env._emulator._boy.frame_count
    env.step(BUTTONS.index(button))
    return int(env._emulator._boy.frame_count - before) // FRAMES_PER_STEP


def asked(env: PokemonRedEnv) -> bool:
    image = env._emulator.ram(ram.WHOLE)
    return image[ram.TEXT_BOX - ram.RAM_START] == ram.QUESTION and env.progress.text_box


def test_a_text_in_a_scene_is_read_on_and_its_question_is_left_to_the_player(make: Make) -> None:
    env = make("pier", *SAILOR)
    assert press(env, "a") <= 5
    assert asked(env)
    assert byte(env.progress.image, ram.JOY_IGNORE) == 0b1111_1100
    for key in ("left", "start", "up"):
        assert press(env, key) == 1
        assert asked(env)


def test_the_boat_takes_one_step_of_the_environment_twenty_times_as_long(make: Make) -> None:
    env = make("pier", *SAILOR)
    press(env, "a")
    length = press(env, "a")
    assert 18 <= length <= 1 + cutscene.MAX_WAIT_STEPS
    assert env.telemetry()[WAITS] >= length - 1
    while cutscene.has_control(env.progress.image):
        press(env, "b")
    assert (env.progress.map_id, env.progress.y, env.progress.x) == (ISLE, 13, 8)
    assert not env.progress.text_box
    assert press(env, "up") == 1
    assert env.progress.y == 12


def test_the_player_is_walked_about_the_deck_while_it_sails(make: Make) -> None:
    env = make("pier", *SAILOR)
    press(env, "a")
    seen: list[tuple[int, int, bool, bool]] = []

    def note() -> None:
        image = env._emulator.ram(ram.WHOLE)
        walked = image[ram.WALKED_BY_GAME - ram.RAM_START] > 0
        led = bool(image[ram.STATUS_FLAGS_5 - ram.RAM_START] & 0x80)
        at = (ram.MAP_ID - ram.RAM_START, ram.PLAYER_X - ram.RAM_START)
        seen.append((image[at[0]], image[at[1]], walked, led))

    env.set_watcher(note)
    press(env, "a")
    deck = {x for number, x, *_ in seen if number == BOAT}
    assert deck == set(range(1, 10))
    assert any(walked for *_, walked, _ in seen)
    assert all(led for *_, walked, led in seen if walked)


def test_who_says_no_stays_and_is_free_again(make: Make) -> None:
    """The key B; the cursor cannot move while only A and B work."""
    env = make("pier", *SAILOR)
    place = (env.progress.map_id, env.progress.y, env.progress.x)
    press(env, "a")
    assert press(env, "b") <= 4
    assert not env.progress.text_box
    assert not cutscene.has_control(env.progress.image)
    assert (env.progress.map_id, env.progress.y, env.progress.x) == place


def test_the_hand_of_a_question_may_point_at_no(make: Make) -> None:
    env = make("taught", *NURSE)
    press(env, "a")
    press(env, "down")
    assert asked(env)
    press(env, "a")
    press(env, "a")
    assert not env.progress.text_box
    assert env.telemetry()[WAITS] == 0


@pytest.mark.parametrize(("answer", "healed"), [("a", True), ("b", False)])
def test_the_careful_nurse_asks_and_takes_her_time(make: Make, answer: str, healed: bool) -> None:
    env = make("taught", *NURSE)
    env._emulator.write(ram.PARTY_MONS + ram.MON_HP + 1, 1)
    press(env, "a")
    assert asked(env)
    assert not cutscene.has_control(env.progress.image), "the question of a free player"
    length = press(env, answer)
    assert (length >= 5) == healed
    for _ in range(3):
        press(env, "b")
    assert (env.progress.hp_fraction == 1.0) == healed
    assert not env.progress.text_box


@pytest.mark.parametrize(("stop", "thing"), [("pier", SAILOR), ("taught", NURSE)])
def test_whoever_mashes_a_is_let_go_within_a_counted_number_of_steps(
    make: Make, stop: str, thing: tuple[int, int, int]
) -> None:
    env = make(stop, *thing)
    lengths = []
    for _ in range(MOST_MASHED):
        lengths.append(press(env, "a"))
        if not (env.progress.text_box or cutscene.has_control(env.progress.image)):
            break
    assert not env.progress.text_box
    assert len(lengths) < MOST_MASHED
    assert max(lengths) <= 1 + cutscene.MAX_WAIT_STEPS


def test_in_the_lighthouse_start_does_nothing_and_everything_else_works() -> None:
    game = Game()
    game.emulator.restore_state(state_at("tower"))
    assert game.byte(ram.JOY_IGNORE) == 0b1100
    assert not cutscene.has_control(game.emulator.ram())
    place = game.place
    game.press("start")
    assert game.facts().menu is None
    assert not game.facts().text_box
    assert game.place == place
    game.press("left")
    assert game.place[2] == place[2] - 1
    game.close()


def test_whoever_has_the_light_shows_it_to_the_keeper_before_the_boat_sails() -> None:
    game = walk_to(game_at("lamp"), *BOATMAN)
    assert not _asks(game)
    walk_to(game, *KEEPER)
    game.press("a", *"bbbb")
    assert _asks(walk_to(game, *BOATMAN))
    game.close()


def test_a_light_that_the_keeper_has_not_seen_is_not_blessed() -> None:
    """Set the flag for the voyage, since a defeat may lead home past the boatman."""
    game = game_at("lamp")
    flag = next(flag for flag in STORY if flag.name == "LAMP_SHOWN")
    kept = game.byte(flag.address)
    game.emulator.write(flag.address, kept | 1 << flag.bit)
    walk_to(game, *ELDER)
    for shown, blessed in ((kept, False), (kept | 1 << flag.bit, True)):
        game.emulator.write(flag.address, shown)
        game.press("a", *"bbbb")
        assert has_happened(game.facts(), "BLESSED") == blessed
    game.close()


def test_whoever_skips_dad_is_sent_home_by_the_elder() -> None:
    game = walk_to(Game(), *EGG)
    game.press("a", *"bbbb")
    walk_to(game, *RIVAL).press("a")
    walk_to(game, *ELDER).press("a", *"bbbb")
    assert has_happened(game.facts(), "BEAT_RIVAL")
    assert not has_happened(game.facts(), "GOT_ALMANAC")
    walk_to(game, *DAD).press("a", *"bbbb")
    walk_to(game, *ELDER).press("a", *"bbbb")
    assert has_happened(game.facts(), "GOT_CHARM")
    game.close()


def _asks(game: Game) -> bool:
    """Return True if the person faced asks a question within a few boxes."""
    for _ in range(4):
        game.press("a")
        if game.byte(ram.TEXT_BOX) == ram.QUESTION and game.facts().text_box:
            return True
    return False
