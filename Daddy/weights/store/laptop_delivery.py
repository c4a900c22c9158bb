"""Offers versions to laptops below ``wan/``: each whole, compressed, and as steps. No torch.

The plain bfloat16 file is what every laptop understands; a frame of the whole and one of the step
from each of the last versions are smaller ways to the same bytes. One step over four versions is
hardly larger than one over one (weights wander, they do not march), so that a thin line keeps up.
Equal inputs give equal frames wherever zlib is the same; the hash of what comes out decides.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import re
from collections.abc import Collection

from Daddy.core.atomic_files import read_bounded, sha256_hex
from Daddy.core.errors import FileError, WeightsError
from Daddy.weights.encoding.delta_frames import pack_delta, pack_state
from Daddy.weights.encoding.tensor_layout import INT8
from Daddy.weights.store.weight_records import AgreedSettings, LaptopFrame, LaptopHead
from Daddy.weights.store.weight_store import Store

REACH = 4
"""So many of the versions offered before lead to the newest in one step. From further back the
whole costs hardly more."""

SPARE = 4
"""Versions whose frames stay although no head lists them any more: somebody may be fetching one."""

KEEP_KEYFRAMES = 8

_PLAIN = re.compile(r"kf-(\d{8})-([0-9a-f]{12})\.st")


def offer_to_laptops(
    store: Store, number: int, data: bytes, terms: AgreedSettings = (), release: str = ""
) -> None:
    """Offer version ``number``, whose bfloat16 safetensors ``data`` is: the head comes last.

    ``terms`` and ``release`` tell laptops how the run learns, and from what. The disk is not waited
    for: a laptop checks every hash, and the next version is offered anew. WeightsError when the
    version's records cannot be read; OSError when the disk does not take it.
    """
    here, sha = _names(store), sha256_hex(data)
    whole = _put(store, pack_state(data), number, sha)
    parts = (*_steps(store, number, data, here), whole)
    record, card, name = store.version(number), store.card(), f"kf-{number:08d}-{sha[:12]}.st"
    frame = LaptopHead(
        version=number,
        name=name,
        size=len(data),
        sha256=sha,
        state=record.state,
        run=card.run,
        run_id=card.run_id,
        workload=card.workload,
        schema=card.schema,
        fleet_steps=record.fleet_steps,
        ts=record.ts,
        assists=record.assists,
        parts=parts,
        accepts=(INT8,),
        terms=terms,
        release=release,
        reverted=record.reverted,
    )
    store.writer.replace(store.paths.wan / name, data, "keyframe", mode=0o444, sync=False)
    offered = store.keyframe()
    if not (offered and offered.run_id == card.run_id and offered.version > number):
        head = store.paths.wan / "HEAD.json"
        store.writer.replace(head, frame.to_json_bytes(), "wan-head", sync=False)
    _drop_old(store, {*here, name, *(part.file for part in parts)})


def _drop_old(store: Store, names: Collection[str]) -> None:
    """Remove the oldest of each kind of file."""
    most = {"kf-*.st": KEEP_KEYFRAMES, "kf-*.wire": 1 + SPARE, "d-*.wire": REACH * (1 + SPARE)}
    for form, count in most.items():
        for old in sorted(fnmatch.filter(names, form))[:-count]:
            (store.paths.wan / old).unlink(missing_ok=True)


def _names(store: Store) -> list[str]:
    """Names of the files below ``wan/``, listed once."""
    with contextlib.suppress(FileNotFoundError):
        return os.listdir(store.paths.wan)  # noqa: PTH208 - names are all that is wanted
    return []


def _steps(store: Store, number: int, data: bytes, here: Collection[str]) -> list[LaptopFrame]:
    """To ``number`` from each of the versions offered last, oldest first."""
    parts = []
    offered = [(name, _PLAIN.fullmatch(name)) for name in sorted(here)]
    before = [name for name, match in offered if match and int(match[1]) < number]
    for name in before[-REACH:]:
        with contextlib.suppress(FileNotFoundError, FileError, WeightsError):  # the whole is left
            base = read_bounded(store.paths.wan / name, 2 * len(data))
            sha = sha256_hex(base)
            if name.endswith(f"-{sha[:12]}.st"):
                frame = pack_delta(data, base)
                parts.append(_put(store, frame, number, sha256_hex(data), sha))
    return parts


def _put(store: Store, frame: bytes, number: int, sha: str, base_sha: str = "") -> LaptopFrame:
    """Write a frame under its name; what the head says of it."""
    kind = "d" if base_sha else "kf"
    name = f"{kind}-{number:08d}-{sha256_hex(frame)[:12]}.wire"
    store.writer.replace(store.paths.wan / name, frame, "part", mode=0o444, sync=False)
    return LaptopFrame(name, len(frame), number, sha, base_sha)
