"""Offers versions to laptops below ``wan/``: each whole, compressed, and as deltas. No torch.

Every laptop understands the plain bfloat16 file. A compressed frame of the whole version, and one
delta frame from each of the last versions, give the same bytes in fewer. A delta over four versions
is hardly larger than one over a single version, since weights change back and forth, so a slow line
keeps up. Equal inputs give equal frames wherever zlib is the same; laptops verify the hash of the
decoded bytes.
"""

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
"""Versions offered before from which a delta leads to the newest. From older ones the whole version
costs hardly more."""

SPARE = 4
"""Versions whose frames stay after the head names a newer one: a laptop may be fetching them."""

KEEP_KEYFRAMES = 8

_PLAIN = re.compile(r"kf-(\d{8})-([0-9a-f]{12})\.st")


def offer_version(
    store: Store, number: int, data: bytes, terms: AgreedSettings = (), release: str = ""
) -> None:
    """Offer version ``number`` with bfloat16 safetensors ``data``; the head is written last.

    ``terms`` (agreed settings) and ``release`` go into the head. Nothing is synced to disk: a
    laptop checks every hash, and the next version is offered anew. Raise WeightsError when the
    version's records cannot be read; OSError when the disk refuses.
    """
    names, sha = _names(store), sha256_hex(data)
    full = _put(store, pack_state(data), number, sha)
    parts = (*_steps(store, number, data, names), full)
    record, card, name = store.version(number), store.card(), f"kf-{number:08d}-{sha[:12]}.st"
    head = LaptopHead(
        version=number,
        name=name,
        size=len(data),
        sha256=sha,
        parts=parts,
        accepts=(INT8,),
        run=card.run,
        run_id=card.run_id,
        workload=card.workload,
        schema=card.schema,
        state=record.state,
        fleet_steps=record.fleet_steps,
        ts=record.ts,
        assists=record.assists,
        reverted=record.reverted,
        terms=terms,
        release=release,
    )
    store.writer.replace(store.paths.wan / name, data, "keyframe", mode=0o444, sync=False)
    offered = store.keyframe()
    if not (offered and offered.run_id == card.run_id and offered.version > number):
        path = store.paths.wan / "HEAD.json"
        store.writer.replace(path, head.to_json_bytes(), "wan-head", sync=False)
    _drop_old(store, {*names, name, *(part.file for part in parts)})


def _drop_old(store: Store, names: Collection[str]) -> None:
    most = {"kf-*.st": KEEP_KEYFRAMES, "kf-*.wire": 1 + SPARE, "d-*.wire": REACH * (1 + SPARE)}
    for form, count in most.items():
        for old in sorted(fnmatch.filter(names, form))[:-count]:
            (store.paths.wan / old).unlink(missing_ok=True)


def _names(store: Store) -> list[str]:
    """Return the names of the files in ``wan/``."""
    with contextlib.suppress(FileNotFoundError):
        return os.listdir(store.paths.wan)  # noqa: PTH208 - only names are needed
    return []


def _steps(store: Store, number: int, data: bytes, names: Collection[str]) -> list[LaptopFrame]:
    """Write delta frames to ``number`` from each of the versions offered last; return entries."""
    parts = []
    offered = [(name, _PLAIN.fullmatch(name)) for name in sorted(names)]
    before = [name for name, match in offered if match and int(match[1]) < number]
    for name in before[-REACH:]:
        with contextlib.suppress(FileNotFoundError, FileError, WeightsError):  # no delta then
            base = read_bounded(store.paths.wan / name, 2 * len(data))
            sha = sha256_hex(base)
            if name.endswith(f"-{sha[:12]}.st"):
                frame = pack_delta(data, base)
                parts.append(_put(store, frame, number, sha256_hex(data), sha))
    return parts


def _put(store: Store, frame: bytes, number: int, sha: str, base_sha: str = "") -> LaptopFrame:
    """Write a frame under its name; return its entry for the head."""
    kind = "d" if base_sha else "kf"
    name = f"{kind}-{number:08d}-{sha256_hex(frame)[:12]}.wire"
    store.writer.replace(store.paths.wan / name, frame, "part", mode=0o444, sync=False)
    return LaptopFrame(name, len(frame), number, sha, base_sha)
