"""The stream's sizes by the bench's own figures; nothing here depends on a clock."""

import math
import random
from itertools import combinations_with_replacement

import pytest

from Daddy.core.confidence_intervals import mean_interval
from scripts.benches import _stream_costs as costs
from scripts.benches import _stream_targets as targets
from scripts.benches import stream
from scripts.benches._stream_training import hodges_lehmann


def test_bytes_keep_to_their_targets_and_what_was_not_measured_is_not_called_met() -> None:
    results = stream.run(quick=True, only="codecs")
    table = results["targets"]
    met = {name: row["met"] for name, row in table.items()}
    assert {name for name, value in met.items() if value} == {"T4 delta", "T4 key", "T4 seed", "T5"}
    others = {value for name, value in met.items() if not name.startswith(("T4", "T5"))}
    assert others == {None}
    elsewhere = {11, 12}  # in the soaks
    assert {f"T{n}" for n in {*range(1, 15)} - elsewhere} <= {name.split()[0] for name in met}


def test_the_table_says_what_was_missed() -> None:
    results = {"ours": {"delta": 301, "key": 700}, "training": {"watching": {"ratio": 0.989}}}
    table = targets.table(results)
    assert (table["T4 delta"]["met"], table["T4 key"]["met"]) == (False, True)
    assert table["T1"] == {
        "what": "training on / off, worst case", "figure": 0.989, "bound": ">= 0.99", "met": False,
    }  # fmt: skip


def test_a_centre_has_the_interval_of_wilcoxons_table_or_one_pair_more() -> None:
    differences = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]  # Darwin's maize
    pairs = combinations_with_replacement(differences, 2)
    means = sorted((first + second) / 2 for first, second in pairs)
    middle, low, high = hodges_lehmann(differences)
    assert middle == (means[59] + means[60]) / 2
    assert low in means[24:26]  # the table leaves out 25 on either side for n = 15 at 5 %
    assert high in means[-26:-24]


def test_a_wild_value_moves_a_mean_and_no_centre() -> None:
    calm = [0.99 + 0.001 * n for n in range(-10, 11)]
    wild = [*calm[:-1], 1.9]
    assert hodges_lehmann(calm).middle == pytest.approx(0.99)
    assert hodges_lehmann(wild).middle == pytest.approx(0.99, abs=5e-4)
    assert mean_interval(wild).middle > 1.03
    assert hodges_lehmann(wild).high - hodges_lehmann(wild).low < 0.007


def test_five_values_say_nothing_of_their_centres_error() -> None:
    assert hodges_lehmann([1.0, 2.0, 3.0, 4.0, 5.0]) == (3.0, -math.inf, math.inf)


def test_nineteen_of_twenty_intervals_hold_the_centre_of_what_has_wild_tails() -> None:
    dice = random.Random(6)
    inside = 0
    for _ in range(1000):
        values = [dice.gauss(1.0, 0.01) + dice.choice((0, 0, 0, -1, 1)) for _ in range(20)]
        _, low, high = hodges_lehmann(values)
        inside += low <= 1.0 <= high
    assert 930 <= inside <= 985


def test_a_step_that_nobody_wants_to_see_draws_nothing_and_opens_no_file() -> None:
    results = costs.measure(quick=True)
    assert results["not_wanted"]["drawing_us"] == results["not_wanted"]["files_per_step"] == 0.0
    assert results["wanted"]["drawing_us"] > 0
    assert results["wanted"].keys() == results["not_wanted"].keys()
