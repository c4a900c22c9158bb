"""Tests that waits for scripts are bounded and counted, and never answer a question."""

from functools import partial

import pytest

from Daddy.pokemon import cutscene
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.emulator import BUTTONS
from Daddy.pokemon.env import PokemonRedEnv
from Daddy.pokemon.memory_decoding import byte
from scripts.cartridge.player import Player, read_facts
from tests.cartridge.game import ROM
from tests.pokemon.images import image

DEAF, TEXT_ONLY, MENU_KEYS, FREE = 0xFF, 0xFC, 0x0C, 0
QUESTION = {"text_box": ram.QUESTION, "menu_last": 1, "font_loaded": 1}


class PaperConsole:
    """A simulated script: the memory at the start and after each step; the last one stays."""

    def __init__(self, *scenes: dict[str, int]) -> None:
        self.scenes, self.keys = [image(**scene) for scene in scenes], ""

    def press(self, button: str) -> None:
        self._pass(button)

    def idle(self) -> None:
        self._pass(".")

    def _pass(self, key: str) -> None:
        self.keys += key
        self.scenes = self.scenes[1:] or self.scenes

    def ram(self, blocks: object = ()) -> bytearray:
        return self.scenes[0]


def test_a_free_player_is_not_waited_for() -> None:
    console = PaperConsole({})
    assert cutscene.wait_for_control(console)[1] == 0
    assert console.keys == ""


def test_while_no_button_works_time_passes_and_nothing_is_pressed() -> None:
    console = PaperConsole({"joy_ignore": DEAF}, {"joy_ignore": DEAF}, {})
    memory, waited = cutscene.wait_for_control(console)
    assert (waited, console.keys) == (2, "..")
    assert memory == image()


def test_while_only_a_and_b_work_a_reads_on() -> None:
    text = {"joy_ignore": TEXT_ONLY, "font_loaded": 1}
    console = PaperConsole({"joy_ignore": DEAF}, text, text, {"joy_ignore": DEAF}, {})
    assert cutscene.wait_for_control(console)[1] == 4
    assert console.keys == ".aa."


def test_buttons_that_are_off_altogether_are_waited_for() -> None:
    console = PaperConsole({"status_flags_5": ram.BUTTONS_OFF}, {})
    assert cutscene.wait_for_control(console)[1] == 1
    assert console.keys == "."


def test_a_question_in_a_script_is_the_players_to_answer() -> None:
    text = {"joy_ignore": TEXT_ONLY, "font_loaded": 1}
    console = PaperConsole(text, {**text, **QUESTION}, {})
    assert cutscene.wait_for_control(console)[1] == 1
    assert console.keys == "a"


def test_a_question_that_nobody_can_answer_yet_is_waited_for() -> None:
    console = PaperConsole({"joy_ignore": DEAF, **QUESTION}, {"joy_ignore": TEXT_ONLY, **QUESTION})
    assert cutscene.wait_for_control(console)[1] == 1
    assert console.keys == "."


def test_a_box_with_two_answers_that_was_closed_long_ago_stops_no_wait_without_its_menu() -> None:
    stale = {"joy_ignore": TEXT_ONLY, "text_box": ram.QUESTION, "menu_last": 3}
    console = PaperConsole(stale, {})
    assert cutscene.wait_for_control(console)[1] == 1


@pytest.mark.parametrize("ignored", [0x0C, 0x01, 0x40, 0xB0, 0x03])
def test_who_can_still_walk_somewhere_has_control(ignored: int) -> None:
    """Some keys are ignored: the menu keys, A alone, all but one direction."""
    assert not cutscene.has_control(image(joy_ignore=ignored))


@pytest.mark.parametrize("ignored", [DEAF, TEXT_ONLY, 0xF0, 0xF1])
def test_who_cannot_walk_has_none(ignored: int) -> None:
    assert cutscene.has_control(image(joy_ignore=ignored))


@pytest.mark.parametrize("ignored", [DEAF, TEXT_ONLY])
def test_a_script_that_never_ends_is_waited_for_twenty_steps(ignored: int) -> None:
    console = PaperConsole({"joy_ignore": ignored})
    assert (
        cutscene.wait_for_control(console)[1] == cutscene.MAX_WAIT_STEPS == len(console.keys) == 20
    )


@pytest.mark.parametrize(("ignored", "waits"), [(DEAF, 20), (TEXT_ONLY, 20), (MENU_KEYS, 0)])
def test_a_step_of_a_real_console_is_bounded_counted_and_told(ignored: int, waits: int) -> None:
    """The cartridge does not reset the byte on a map, so it acts as a script without end."""
    env = PokemonRedEnv()
    env.reset(seed=1)
    env._emulator.write(ram.JOY_IGNORE, ignored)
    before = frames(env)
    env.step(5)
    assert frames(env) - before == 24 * (1 + waits)
    assert env.telemetry()[env.telemetry_names.index("waits")] == waits
    again = PokemonRedEnv()
    again.load_state(env.save_state())
    assert again.telemetry() == env.telemetry()
    env.reset()
    assert env.telemetry()[env.telemetry_names.index("waits")] == 0
    for opened in (env, again):
        opened.close()


def frames(env: PokemonRedEnv) -> int:
    return int(env._emulator._boy.frame_count)


def test_whoever_plays_the_cartridge_is_never_left_without_control() -> None:
    env, player = PokemonRedEnv(episode_steps=10_000), Player(ROM)
    env.reset(seed=3)
    maps = set()
    for _ in range(400):
        facts = read_facts(partial(byte, bytes(env._emulator.ram(ram.WHOLE))))
        env.step(BUTTONS.index(player.next_button(facts)))
        assert not cutscene.has_control(env.progress.image)
        maps.add(env.progress.map_id)
    env.close()
    assert len(maps) > 3


def test_a_wait_is_filmed_as_any_step_and_a_beginning_is_not() -> None:
    env = PokemonRedEnv()
    drawn: list[int] = []
    env.set_watcher(lambda: drawn.append(frames(env)))
    env.reset(seed=1)
    assert drawn == []
    env._emulator.write(ram.JOY_IGNORE, DEAF)
    env.step(5)
    env.close()
    assert len(drawn) == (1 + 20) * 24 // 4
