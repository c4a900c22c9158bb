"""The book-keeping of one peer: its anchor through adoptions, offers and restarts."""

import json

import pytest
import torch

from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.encoding.state_codec import encode
from scripts.version_history import read_history
from tests.weights.helpers import ManualClock, begin, close, shifted


@pytest.fixture
def clock():
    return ManualClock()


def newest(root):
    return read_history(SharedPaths(root)).versions[-1]


def test_an_adoption_counts_although_nothing_can_be_written_afterwards(tmp_path, clock):
    """Progress counts from the new base: the old weights would undo others' progress."""
    full = []

    def hook(point):
        if full:
            raise OSError(28, "No space left on device")

    entry = begin(tmp_path, "slot-0", clock, hook=hook)
    other = begin(tmp_path, "slot-1", clock)
    start = entry.weights
    other.shift(4.0)
    other.publish()
    clock.pass_by(100)
    other.adopt()
    real = entry.exchange._load_newest

    def then_full():
        found = real()
        full.append(True)
        return found

    entry.exchange._load_newest = then_full
    assert entry.adopt() == 1
    assert close(entry.weights, shifted(start, 2.0))


def test_under_polyak_an_offer_from_before_the_last_rebase_is_no_part_of_the_anchor(
    tmp_path, clock
):
    """It waits for its verdict on an earlier base: a successor must not subtract it."""
    number, other, third = (begin(tmp_path, f"slot-{k}", clock, rule="polyak") for k in range(3))
    number.shift(1.0)
    number.publish()
    (blob,) = number.exchange._progress.blobs.values()
    SharedPaths(tmp_path).blob(blob).rename(tmp_path / "unseen")
    for peer in (other, third):
        peer.shift(0.5)
        peer.publish()
    clock.pass_by(10)
    other.adopt()
    assert number.adopt() is not None
    assert number.exchange._progress.unmerged
    number.shift(0.5)
    anchor = number.exchange._progress.anchor
    note = number.exchange.resume_state()
    again = begin(tmp_path, "slot-0", clock, rule="polyak", resumed=note, own=dict(number.weights))
    assert close(again.exchange._progress.anchor, anchor)


def test_the_rest_of_the_way_that_the_release_before_held_back_is_gone_and_not_offered(
    tmp_path, clock
):
    """That release took part of a version and stored the rest as a blob, which is no progress."""
    number, other = (begin(tmp_path, f"slot-{k}", clock) for k in range(2))
    start = number.weights
    other.shift(4.0)
    other.publish()
    clock.pass_by(100)
    assert number.adopt() == 1
    assert close(number.weights, shifted(start, 2.0))
    rest = {name: torch.full_like(value, -1.0 * value.is_floating_point())
            for name, value in start.items()}  # fmt: skip
    store = number.exchange._store
    note = json.loads(number.exchange.resume_state())
    note["held_back"] = store.put_blob(encode(rest), "blob")
    own = shifted(start, 1.0 + 0.5)
    again = begin(tmp_path, "slot-0", clock, resumed=json.dumps(note).encode(), own=own)
    assert close(again.weights, shifted(start, 2.0 + 0.5))
    again.env_steps, again.updates = number.env_steps, number.updates
    again.shift(0.25)
    again.publish()
    clock.pass_by(100)
    other.adopt()
    (mine,) = newest(tmp_path).inputs
    assert mine.norm == pytest.approx(0.75 * 15**0.5, rel=1e-5)
