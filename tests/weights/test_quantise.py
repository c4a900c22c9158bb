"""Deltas as int8: error, size, refusals, and errors that the next delta makes up for."""

import json
import math
import struct
import zlib

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save

from Daddy.core.errors import WeightsError
from Daddy.weights.encoding import delta_frames
from Daddy.weights.encoding.quantise import decode_delta, quantise
from Daddy.weights.encoding.state_codec import schema_of
from Daddy.weights.encoding.tensor_layout import refuse_unless_quantised
from tests.weights.helpers import make_state, perturbed

FLOATS = st.floats(allow_nan=False, allow_infinity=False, width=32)


def opened(data: bytes, schema: str) -> dict[str, torch.Tensor]:
    return load(
        delta_frames.unpack_state(data, lambda layout: refuse_unless_quantised(layout, schema))
    )


def there_and_back(delta):
    return decode_delta(quantise(delta), "int8", schema_of(delta))


@given(st.lists(FLOATS, max_size=30), st.integers(0, 2100))
@example([3.4026161801591393e38], 0)  # times 127 of its scale it would be infinite
@settings(max_examples=60)
def test_no_value_is_wrong_by_more_than_half_its_blocks_scale(numbers, zeros):
    delta = {"w": torch.tensor(numbers + [0.0] * zeros, dtype=torch.float32)}
    data = quantise(delta)
    raw, back = opened(data, schema_of(delta)), decode_delta(data, "int8", schema_of(delta))
    scales = raw["s.w"].double() * raw["u.w"].double()
    allowed = scales.repeat_interleave(1024)[: len(delta["w"])] / 2
    assert (back["w"].double() - delta["w"].double()).abs().le(allowed).all()
    assert raw["s.w"].shape == (-(-len(delta["w"]) // 1024),)


@pytest.mark.parametrize("quiet", [1e-4, 1e-6, 1e-8])
def test_a_quiet_block_beside_a_loud_one_is_not_lost_to_the_scales_own_rounding(quiet):
    rows = torch.randn(2, 1024, generator=torch.Generator().manual_seed(1))
    delta = {"w": rows * torch.tensor([[1.0], [quiet]])}
    raw, back = opened(quantise(delta), schema_of(delta)), there_and_back(delta)
    error = (back["w"] - delta["w"]).abs().amax(1).double()
    assert (error <= raw["s.w"].double() * raw["u.w"].double() / 2).all()


@pytest.mark.parametrize("size", [1e-30, 1e-12, 1e-8, 1e-5, 1.0, 1e30])
def test_at_every_learning_rate_the_error_is_a_percent_or_less(size):
    generator = torch.Generator().manual_seed(1)
    delta = {"w": torch.randn(20_000, generator=generator) * size}
    error = there_and_back(delta)["w"].double() - delta["w"].double()
    assert error.norm() / delta["w"].double().norm() < 0.012


def test_shapes_counters_and_empty_tensors_come_back_as_they_were():
    delta = {
        "scalar": torch.tensor(0.5),
        "none": torch.zeros(0, 3),
        "kernel": torch.randn(4, 3, 5, 7).contiguous(memory_format=torch.channels_last),
        "steps": torch.tensor([3, -4]),
        "seen": torch.tensor([True, False]),
        "s.w": torch.randn(2),
    }
    back = there_and_back(delta)
    assert schema_of(back) == schema_of(delta)
    assert torch.equal(back["steps"], delta["steps"])
    assert torch.equal(back["seen"], delta["seen"])
    assert (back["kernel"] - delta["kernel"]).abs().max() < 0.02


def test_equal_deltas_have_equal_bytes_and_a_quarter_of_the_size():
    delta = {"w": torch.randn(100_000, generator=torch.Generator().manual_seed(2)) * 1e-4}
    assert quantise(delta) == quantise({"w": delta["w"].clone()})
    assert len(quantise(delta)) < 4 * 100_000 / 4


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_delta_that_is_not_finite_is_not_sent(bad):
    with pytest.raises(WeightsError, match="not finite"):
        quantise({"w": torch.tensor([0.0, bad])})


@given(st.lists(st.integers(0, 10_000), min_size=2, max_size=12))
@settings(max_examples=25)
def test_with_what_was_dropped_in_the_next_one_nothing_drifts(seeds):
    own = start = make_state(0, 40)
    shared = start
    for seed in seeds:
        own = perturbed(own, seed, 0.01)
        sent = there_and_back({n: own[n] - shared[n] for n in own})
        shared = {n: shared[n] + sent[n] for n in own}
    last = max(float((own[n] - shared[n]).abs().max()) for n in own if own[n].is_floating_point())
    assert last <= 0.01 * 8 / 127  # half a scale of one delta, however many were sent


def reframed(change) -> bytes:
    delta = perturbed(make_state(0, 40), 1)
    raw = opened(quantise(delta), schema_of(delta))
    change(raw)
    return delta_frames.pack_state(save(raw))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda raw: raw.update({"s.core.bias": torch.full((1,), math.nan).half()}), "scale of"),
        (lambda raw: raw.update({"s.core.bias": torch.full((1,), -1.0).half()}), "scale of"),
        (lambda raw: raw.update({"u.core.bias": torch.tensor([0.0])}), "scale of"),
        (lambda raw: raw.update({"u.core.bias": torch.tensor([math.nan])}), "scale of"),
        (lambda raw: raw.update({"u.core.bias": torch.tensor([math.inf])}), "scale of"),
        (lambda raw: raw.update({"s.core.bias": torch.ones(2).half()}), "do not belong"),
        (lambda raw: raw.update({"s.core.bias": torch.ones(1)}), "do not belong"),
        (lambda raw: raw.pop("u.core.bias"), "do not belong"),
        (lambda raw: raw.update(more=torch.ones(1)), "do not belong"),
        (lambda raw: raw.pop("i.steps"), "names or shapes"),
        (lambda raw: raw.update({"q.core.bias": torch.ones(41).char()}), "names or shapes"),
        (lambda raw: raw.update({"i.core.bias": raw.pop("q.core.bias").double()}), "shapes"),
    ],
)
def test_whatever_the_schema_does_not_promise_is_refused(change, said):
    with pytest.raises(WeightsError, match=said):
        decode_delta(reframed(change), "int8", schema_of(make_state(0, 40)))


def test_a_header_that_promises_terabytes_is_refused_by_its_schema():
    header = {
        "q.w": {"dtype": "I8", "shape": [1 << 40], "data_offsets": [0, 1 << 40]},
    }
    text = json.dumps(header).encode()
    preamble = struct.pack("<Q", len(text)) + text
    stream = zlib.compress(preamble)
    frame = b"DADDYWTS\x01\x01" + bytes(6) + struct.pack("<Q", 1 << 40) + bytes(40)
    frame += struct.pack("<I", len(stream)) + stream
    with pytest.raises(WeightsError, match="names or shapes"):
        decode_delta(frame, "int8", schema_of(make_state()))


def test_another_form_and_a_pickle_are_refused_in_words():
    with pytest.raises(WeightsError, match="is unknown"):
        decode_delta(quantise(make_state()), "int4", schema_of(make_state()))
    with pytest.raises(WeightsError, match="no frame of weights"):
        decode_delta(b"\x80\x04\x95" + bytes(100), "int8", schema_of(make_state()))
    with pytest.raises(WeightsError, match="complete safetensors"):
        decode_delta(quantise(make_state()), "", schema_of(make_state()))
