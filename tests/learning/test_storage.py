import numpy as np
import torch
from gymnasium.spaces import Box
from hypothesis import given
from hypothesis import strategies as st

from Daddy.learning.storage import ObservationStore, pack, unpack

SHADES = np.array([0, 85, 153, 255], np.uint8)
SCREEN = Box(0, 255, (72, 80), np.uint8)
CPU = torch.device("cpu")


def screens(seed, count=2):
    return SHADES[np.random.default_rng(seed).integers(0, 4, (count, 72, 80))]


@given(
    st.lists(st.sampled_from(list(range(4))), min_size=4, max_size=64).map(
        lambda x: x[: len(x) // 4 * 4]
    )
)
def test_packing_loses_nothing(numbers):
    pixels = SHADES[np.array(numbers, int)]
    assert np.array_equal(unpack(torch.from_numpy(pack(pixels))).numpy(), pixels)


def test_a_screen_takes_a_quarter_of_its_bytes():
    store = ObservationStore((3, 2), SCREEN)
    assert store._array.nbytes == 3 * 2 * 72 * 80 // 4


def test_what_is_taken_is_what_was_put():
    store = ObservationStore((3, 2), SCREEN)
    for t in range(3):
        store.put(t, screens(t))
    steps, envs = np.array([[0, 1], [1, 2]]), np.array([1, 0])
    got = store.take(steps, envs, CPU).numpy()
    assert got.shape == (2, 2, 72, 80)
    assert np.array_equal(got[0, 0], screens(0)[1])
    assert np.array_equal(got[1, 1], screens(2)[0])


def test_a_picture_with_other_greys_is_kept_exactly_and_so_are_those_before_it():
    store = ObservationStore((2, 2), SCREEN)
    store.put(0, screens(0))
    odd = np.random.default_rng(9).integers(0, 256, (2, 72, 80)).astype(np.uint8)
    store.put(1, odd)
    got = store.take(np.array([[0, 0], [1, 1]]), np.array([0, 1]), CPU).numpy()
    assert np.array_equal(got[0], screens(0))
    assert np.array_equal(got[1], odd)


def test_scalars_are_stored_in_their_own_type():
    store = ObservationStore((1, 2), Box(-1.0, 1.0, (3,), np.float32))
    values = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], np.float32)
    store.put(0, values)
    got = store.take(np.array([[0, 0]]), np.array([0, 1]), CPU)
    assert got.dtype == torch.float32
    assert np.array_equal(got[0].numpy(), values)
