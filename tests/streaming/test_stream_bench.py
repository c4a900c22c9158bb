"""What the stream costs, by the bench's own figures; nothing here depends on a clock."""

from __future__ import annotations

from scripts.benches import _stream_targets as targets
from scripts.benches import stream


def test_bytes_keep_to_their_targets_and_what_was_not_measured_is_not_called_met() -> None:
    found = stream.run(quick=True, only="codecs")
    table = found["targets"]
    met = {name: row["met"] for name, row in table.items()}
    assert {name for name, one in met.items() if one} == {"T4 delta", "T4 key", "T4 seed", "T5"}
    assert {one for name, one in met.items() if not name.startswith(("T4", "T5"))} == {None}
    assert {f"T{number}" for number in range(1, 15)} <= {name.split()[0] for name in met}


def test_the_table_says_what_was_missed() -> None:
    found = {"ours": {"delta": 301, "key": 700}, "training": {"watching": {"ratio": 0.989}}}
    table = targets.table(found)
    assert (table["T4 delta"]["met"], table["T4 key"]["met"]) == (False, True)
    assert table["T1"] == {
        "what": "training on / off, worst case", "figure": 0.989, "bound": ">= 0.99", "met": False,
    }  # fmt: skip


def test_an_enemy_that_breaks_something_is_a_target_missed() -> None:
    thrown = {"messages": 10, "held_bytes_most": {"relay": 70_000}, "broken": ["one"]}
    table = targets.table({"measured": {"spoilt": thrown, "costs": {}}})
    assert (table["T12"]["met"], table["T12 held"]["met"]) == (False, False)
