"""Tests that the scripted player wins: every flag, three badges in order, the ending."""

from functools import partial

import pytest

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.env import TELEMETRY, PokemonRedEnv
from Daddy.pokemon.memory_decoding import byte
from scripts.cartridge.distances import Place
from scripts.cartridge.game_state import Facts, read_facts
from scripts.cartridge.player import BUTTONS, QUEST, Player
from scripts.cartridge.symbols import STORY
from tests.cartridge.game import ROM, Game

WAITS = TELEMETRY.index("waits")

FEWEST, MOST = 1_500, 3_000
"""Return the actions of a whole game."""
LEADERS = ("BEAT_LEADER1", "BEAT_LEADER2", "BEAT_LEADER3")


class StraightPlayer(Player):
    """Does only what the first badge needs."""

    def goal(self, facts: Facts) -> Place:
        told = {STORY[index].name for index in facts.set_flags if index < len(STORY)}
        needed = (
            *("GREETED_DAD", "GOT_STARTER", "BEAT_RIVAL", "GOT_CHARM"),
            *("GOT_LETTER", "GOT_FRIEND", "SLEPT_STONE", "BEAT_LEADER1"),
        )
        return QUEST[next((name for name in needed if name not in told), needed[-1])]


@pytest.mark.parametrize("seed", [0, 5, 77])
def test_the_scripted_player_wins(seed: int) -> None:
    game, player = Game(seed=seed), Player(ROM)
    order: list[int] = []
    badges = [0]
    steps = 0
    while steps < MOST:
        facts = game.facts()
        told = {index for index in facts.set_flags if index < len(STORY)}
        assert told >= set(order), "a flag was cleared again"
        order += sorted(told - set(order))
        if game.badges != badges[-1]:
            badges.append(game.badges)
        if facts.finished:
            break
        button = player.next_button(facts)
        assert button in BUTTONS
        game.press(button)
        steps += 1
    assert len(order) == len(STORY)
    assert FEWEST <= steps < MOST
    assert badges == [0, 0b1, 0b11, 0b111]
    assert [STORY[i].name for i in order if STORY[i].name in LEADERS] == list(LEADERS)
    assert game.byte(0xD5A2) == 1
    assert game.byte(0xD35E) == 118
    assert game.byte(0xD163) == 3
    game.press("a")
    assert game.place[0] == 37
    game.press("down")
    assert game.place == (37, 5, 3) or game.place[0] == 0
    game.close()


def test_it_wins_through_the_environment_too_in_which_a_scene_is_one_action() -> None:
    env, player, actions = PokemonRedEnv(episode_steps=MOST), Player(ROM), 0
    env.reset(seed=1)
    won = False
    while not won:
        facts = read_facts(partial(byte, bytes(env._emulator.ram(ram.WHOLE))))
        _, _, won, late, _ = env.step(BUTTONS.index(player.next_button(facts)))
        actions += 1
        assert not late
    assert actions >= FEWEST
    assert env.telemetry()[WAITS] > 40
    env.close()


def test_the_first_badge_lies_within_an_episode_of_256_steps() -> None:
    game = Game()
    steps = game.play(StraightPlayer(ROM), 256, until="badges")
    assert game.badges == 1
    assert steps < 200
    game.close()


def test_a_step_of_the_player_depends_on_the_facts_alone() -> None:
    game, player = Game(), Player(ROM)
    game.play(player, 60)
    facts = game.facts()
    assert Player(ROM).next_button(facts) == player.next_button(facts)
    game.close()
