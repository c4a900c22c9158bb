"""Bytes and seconds per version on the network, of a policy of 3 M parameters that really learns.

The game's learner with a wider network and the large network's step size takes 160 optimizer steps
of PPO after two iterations that fill Adam's moments. Its states after 0, 1, 16 and 160 of them are
sent in each form, decoded again and compared bit for bit. In the same run real rsync, local, with
its delta algorithm on, updates a safetensors file and a ``.pt`` from the first to each other.
Seconds are of one core, as the kernel counts them: other processes do not lengthen them.
"""

import re
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch

from Daddy.core import run_subprocess
from Daddy.core.load_config import load_config
from Daddy.core.settings import PROFILES
from Daddy.weights.encoding.delta_frames import pack_delta, pack_state, unpack_delta, unpack_state
from Daddy.weights.encoding.quantise import decode_delta, quantise
from Daddy.weights.encoding.state_arithmetic import StateDict, copy_state, difference, norm
from Daddy.weights.encoding.state_codec import encode, schema_of
from Daddy.weights.encoding.tensor_layout import refuse_unless_half
from scripts.benches import train

DISTANCES = (1, 16, 160)
WARM_ITERATIONS = 2
FEATURES, MEMORY = 512, 536
"""Widths that make the game's network 3 M parameters."""

RSYNC_S = 120.0
Result = TypeVar("Result")


def measure(folder: Path, times: int) -> dict[str, object]:
    """Return figures by form: seconds are medians of ``times`` tries, ``of_…`` byte ratios."""
    folder.mkdir(parents=True, exist_ok=True)
    states, facts = _learn()
    raw = len(encode(states[0]))
    found: dict[str, object] = {**facts, "raw_bytes": raw}
    found["keyframe"] = _keyframe(states[0], raw, times)
    for steps in DISTANCES:
        files = {
            name: _rsync(folder, name, write, states[0], states[steps])
            for name, write in (("safetensors", _write_safetensors), ("pt", _write_pt))
        }
        least = min(float(path["bytes"]) for path in files.values())
        found[f"steps_{steps}"] = {
            "delta": _delta(states[0], states[steps], raw, least, times),
            "int8_contribution": _int8(states[0], states[steps], raw, least, times),
            **{f"rsync_{name}": entry for name, entry in files.items()},
        }
    return found


def _learn() -> tuple[dict[int, StateDict], dict[str, object]]:
    """Return the policy's state by optimizer steps after warm-up."""
    rate = PROFILES["gpu"]["learning_rate"]
    flags = {"training.device": "cpu", "archive.mode": "off",
             "training.encoder_size": FEATURES, "training.lstm_size": MEMORY,
             "training.learning_rate": rate}  # fmt: skip
    states: dict[int, StateDict] = {}
    with train.training_learner(load_config(None, flags)) as session:
        train.iterate(session, WARM_ITERATIONS)
        optimizer, policy = session.updater.optimizer, session.updater.policy
        warm, plain_step = optimizer.steps, optimizer.step
        states[0] = copy_state(policy.state_dict())

        def step(rate: float, max_norm: float) -> float:
            length = plain_step(rate, max_norm)
            if optimizer.steps - warm in DISTANCES:
                states[optimizer.steps - warm] = copy_state(policy.state_dict())
            return length

        optimizer.step = step  # type: ignore[method-assign]
        while optimizer.steps - warm < max(DISTANCES):
            train.iterate(session, 1)
    size = sum(state.numel() for state in states[0].values())
    return states, {"parameters": size, "learning_rate": rate}


def _keyframe(state: StateDict, raw: int, times: int) -> dict[str, object]:
    plain, schema = encode(state, half=True), schema_of(state)
    seconds, frame = _timed(lambda: pack_state(plain), times)
    check = lambda layout: refuse_unless_half(layout, schema)  # noqa: E731
    back_s, back = _timed(lambda: unpack_state(frame, check), times)
    return {
        "bfloat16_bytes": len(plain),
        **_row(len(frame), raw, seconds, back_s),
        "exact": back == plain,
    }


def _delta(
    before: StateDict, after: StateDict, raw: int, least: float, times: int
) -> dict[str, object]:
    base, plain = encode(before, half=True), encode(after, half=True)
    seconds, frame = _timed(lambda: pack_delta(plain, base), times)
    back_s, back = _timed(lambda: unpack_delta(frame, base), times)
    changed = [
        (entry.bfloat16() != after[name].bfloat16()).sum().item() for name, entry in before.items()
    ]
    size = sum(item.numel() for item in before.values())
    return {
        "bfloat16_changed": round(sum(changed) / size, 3),
        **_row(len(frame), raw, seconds, back_s),
        "of_rsync": round(len(frame) / least, 4),
        "exact": back == plain,
    }


def _int8(
    before: StateDict, after: StateDict, raw: int, least: float, times: int
) -> dict[str, object]:
    delta, schema = difference(after, before), schema_of(before)
    seconds, frame = _timed(lambda: quantise(delta), times)
    back_s, back = _timed(lambda: decode_delta(frame, "int8", schema), times)
    return {
        **_row(len(frame), raw, seconds, back_s),
        "of_rsync": round(len(frame) / least, 4),
        "error_of_delta": round(norm(difference(back, delta)) / norm(delta), 5),
    }


def _row(size: int, raw: int, encode_s: float, decode_s: float) -> dict[str, object]:
    return {
        "bytes": size,
        "of_raw": round(size / raw, 4),
        "encode_s": round(encode_s, 3),
        "decode_s": round(decode_s, 3),
    }


def _timed(work: Callable[[], Result], times: int) -> tuple[float, Result]:
    seconds = []
    for _ in range(times):
        begun = time.process_time()
        result = work()
        seconds.append(time.process_time() - begun)
    return statistics.median(seconds), result


def _write_safetensors(path: Path, state: StateDict) -> None:
    path.write_bytes(encode(state))


def _write_pt(path: Path, state: StateDict) -> None:
    """Write a ``.pt`` file as many scripts ship it; it is never read."""
    torch.save(state, path)


def _rsync(
    folder: Path,
    name: str,
    write: Callable[[Path, StateDict], None],
    before: StateDict,
    after: StateDict,
) -> dict[str, float]:
    """Return bytes both ways and seconds of a real transfer over a copy one version old."""
    there, here = (folder / side / f"policy.{name}" for side in ("there", "here"))
    for path, state in ((here, before), (there, after)):
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, state)
    words = ["rsync", "--ignore-times", "--no-whole-file", "--stats", str(there), str(here)]
    begun = _children_s()
    done = run_subprocess.run_command(
        words, RSYNC_S, env={"PATH": "/usr/bin:/bin:/usr/local/bin", "LC_ALL": "C"}
    )
    seconds = _children_s() - begun
    if done.returncode or there.read_bytes() != here.read_bytes():
        raise RuntimeError(f"rsync failed: {done.stderr}")
    return {
        "bytes": _stat(done.stdout, "Total bytes sent")
        + _stat(done.stdout, "Total bytes received"),
        "matched": _stat(done.stdout, "Matched data"),
        "seconds": round(seconds, 3),
    }


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _stat(text: str, name: str) -> int:
    found = re.search(rf"{name}: ([\d,]+)", text)
    if found is None:
        raise RuntimeError(f"rsync did not say {name!r}")
    return int(found[1].replace(",", ""))
