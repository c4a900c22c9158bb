import numpy as np
import pytest

from Daddy.pokemon import story
from Daddy.pokemon.milestones import COLUMNS, facts, reached


@pytest.mark.parametrize("real", [True, False], ids=["the real game", "the cartridge"])
def test_every_milestone_survives_the_telemetrys_float32(real):
    for held in [frozenset({name}) for name in story.names(real=real)] + [
        frozenset(story.names(real=real)),
        frozenset(),
    ]:
        row = np.array(list(facts(held, real).values()), np.float32)
        told = {**dict(zip(COLUMNS, row.tolist(), strict=True)), "real_game": float(real)}
        assert frozenset(reached(told)) == held


def test_what_is_no_milestone_is_left_out():
    assert facts(frozenset({"at_pallet_town"}), True) == facts(frozenset(), True)


def test_facts_of_another_workload_show_none():
    assert reached({"episode_return": 3.0}) == ()
