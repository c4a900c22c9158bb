"""The viewer soak's figures from made-up events and samples."""

from Daddy.dashboard import Handover
from scripts.soaks.viewer_soak import growth, returns


def test_memory_grows_from_when_a_process_has_settled_to_its_end() -> None:
    samples = [(5.0 * n, 50.0 if n < 12 else 80.0 + 0.1 * n) for n in range(100)]
    assert 8.0 < growth(samples, 60.0) < 9.0
    assert growth(samples[:3], 60.0) == 0.0


def test_a_pin_is_back_with_the_first_new_frame_of_it_after_its_own_slot_was_handed_over() -> None:
    passed = [Handover(slot, at, 0.5) for slot, at in ((1, 100.0), (2, 150.0), (1, 200.0))]
    shown = [(99.0, 3), (101.0, 0), (107.5, 4), (199.0, 9), (240.0, 1)]
    metrics = [(ts, {"frames": {"slot-1/0": frames, "slot-2/0": 1}}) for ts, frames in shown]
    assert returns("slot-1/0", passed, metrics) == [7.5, None]
