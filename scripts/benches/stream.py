"""Measures bytes, processor time and delays of the stream, beside the format of the seed code.

The corpus is the cartridge played by the scripted player with a share of random keys, one picture a
step, as in training: the same bytes on every machine. Every codec encodes the whole corpus in the
same run, as whole pictures and as deltas. The lower bound is ``xz -9e`` over the whole sequence at
once, which no live stream can reach. Then a real sender, relay and viewer carry the corpus over ssh
through slow links.
"""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from Daddy.streaming.login.stream_folder import WatchRequest, write_watch_request
from Daddy.streaming.protocol.framing import HEADER, MAC_BYTES
from Daddy.streaming.protocol.messages import FRAME_HEAD
from Daddy.streaming.tunnel_client import FrameSender
from scripts.benches import _stream_codecs as codecs
from scripts.benches import _stream_links as links
from scripts.benches import _stream_targets as targets
from scripts.benches import _stream_training as training
from scripts.benches._stream_corpus import record
from scripts.benches._stream_login import wait_for
from scripts.benches._stream_selection import simulate

FLAT = True
PARTS = ("codecs", "selection", "links", "targets")
OPTIONS = {"only": {"choices": (*PARTS, "training"), "help": "the only part to measure (all)"}}
"""``training`` takes hours: it is measured only if it is named."""
STEPS, QUICK_STEPS = 1500, 300
AGENTS = 2
HOURS, QUICK_HOURS = 4.0, 0.5
ENVELOPE = HEADER.size + FRAME_HEAD.size + MAC_BYTES


def run(quick: bool, only: str | None = None) -> dict[str, object]:
    """Measure bytes and processor time per picture, ours and others', and ages over ssh."""
    pictures, step_s = record(QUICK_STEPS if quick else STEPS)
    results: dict[str, Any] = {"pictures": len(pictures)}
    if only in (None, "codecs"):
        results |= compare(pictures, step_s)
    if only in (None, "selection"):
        results["selection"] = simulate(QUICK_HOURS if quick else HOURS)
    if only in (None, "links"):
        results["links"] = links.measure(pictures, quick)
    if only in (None, "targets"):
        results["measured"] = targets.measure(pictures, quick)
    if only == "training":
        results["training"] = training.measure(quick)
    return {**results, "targets": targets.table(results)}


def compare(pictures: Sequence[bytes], step_s: float) -> dict[str, object]:
    """Compare our codec with others and the bound; ``step_s``: seconds of an emulator step."""
    peers, floor = codecs.peers(pictures), codecs.floor(pictures)
    ours = {**_ours(pictures), "emulated_step_us": step_s * 1e6}
    ratios = _ratios(ours, peers, floor)
    return {"ours": ours, "peers": peers, "floor_xz": floor, "ratios": ratios}


def _ours(pictures: Sequence[bytes]) -> dict[str, float]:
    frames = [len(frame.data) for frame in codecs.sent(pictures)]
    delta = codecs.measure(codecs.deltas, pictures)
    key = codecs.measure(codecs.wholes, pictures)
    return {
        "delta": delta["bytes_per_frame"],
        "key": key["bytes_per_frame"],
        "sequence": mean(frames),
        "decode_cpu_us": codecs.decoding_us(pictures),
        "delta_cpu_us": delta["cpu_us_per_frame"],
        "key_cpu_us": key["cpu_us_per_frame"],
        "envelope_bytes": ENVELOPE,
        "of_a_core_at_2x15_fps": delta["cpu_us_per_frame"] * codecs.FPS * AGENTS / 1e6,
        "offer_us": _offer_us(pictures[0]),
    }


def _ratios(ours: dict[str, float], peers: dict[str, Any], floor: float) -> dict[str, float]:
    """Return the others' sizes in multiples of ours with its envelope, and ours of the floor's."""
    sent = ours["delta"] + ENVELOPE
    sizes = {
        name: peer["bytes_per_frame"] for name, peer in peers.items() if isinstance(peer, dict)
    }
    ratios = {f"{name}_to_ours": size / sent for name, size in sizes.items()}
    return {**ratios, "ours_to_floor": ours["sequence"] / floor}


def _offer_us(picture: bytes) -> float:
    """Return the microseconds that offering one wanted picture takes in the training thread."""
    with tempfile.TemporaryDirectory() as folder, FrameSender(Path(folder), "slot-0") as sender:
        write_watch_request(Path(folder), WatchRequest(1, 60.0, {"slot-0": frozenset({0})}))
        wait_for(sender.wanted_agents, "the streamer wanted nothing")
        began = time.perf_counter()
        for _ in range(2000):
            sender._offered.clear()  # noqa: SLF001 - as if each picture had been requested
            sender.send_picture(0, picture)
        return (time.perf_counter() - began) / 2000 * 1e6
