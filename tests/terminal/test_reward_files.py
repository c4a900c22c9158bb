"""A reward is one number, or numbers of which a key chooses."""

import pytest

from Daddy.terminal.reward_files import ReduceBy, read_rewards


@pytest.mark.parametrize(
    ("text", "table", "key", "reduce_by", "reward"),
    [
        (b" 0.5\n", None, None, "sum", 0.5),
        (None, b'{"a": 0.25, "b": 1}', None, "sum", 1.25),
        (None, b'{"a": 0.25, "b": 1}', "a", "sum", 0.25),
        (None, b'{"a": 0.25}', None, "single", 0.25),
        (None, b'{"a": 0.25, "b": 1}', None, "single", None),
        (None, b'{"a": 0.25}', "c", "sum", None),
        (b"nan", None, None, "sum", None),
        (b"", None, None, "sum", None),
        (None, b'{"a": true}', None, "sum", None),
        (None, b'{"a": 1%s}' % (b"0" * 400), None, "sum", None),
        (None, b"[" * 100_000, None, "sum", None),
        (None, b'{"a": 1e308, "b": 1e308}', None, "sum", None),
        (None, b'{"a": 1e39}', None, "sum", None),
        (None, b'{"a": 6e5, "b": -6e5}', "a", "sum", 6e5),
        (None, b'{"a": 6e5, "b": 6e5}', None, "sum", None),
        (None, b"[1]", None, "sum", None),
        (None, b"{}", None, "sum", None),
        (None, None, None, "sum", None),
        (b"1", b'{"a": 1}', None, "sum", None),
    ],
)
def test_a_reward_is_read_or_refused(
    text: bytes | None, table: bytes | None, key: str | None, reduce_by: ReduceBy,
    reward: float | None,
) -> None:  # fmt: skip
    verdict = read_rewards(text, table, key, reduce_by)
    assert verdict.reward == reward
    assert verdict.reason.startswith("no reward of the verifier: ") == (reward is None)
