"""Everything private of one learner on disk: whole, verified, never a pickle.

A checkpoint is a blob (safetensors) and a manifest (JSON with the blob's hash and the counters).
The manifest is written last and is the commit: without it a blob does not exist. Names order by
(term, step): a zombie of an older term can never hide what its successor wrote. A checkpoint that
fails its hash is set aside, never deleted, and the one before it is used.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as tensors_to_bytes

from Daddy.core.atomic_files import read_bounded, read_json, sha256_hex, write_atomic, write_json
from Daddy.core.errors import DaddyError, ExitCode, FileError

VERSION = 1
_MANIFEST_LIMIT = 4 * 1024 * 1024
_BLOB_LIMIT = 4 * 1024**3
_HOUR_S = 3600.0
_NAME = re.compile(r"t(\d{6})-s(\d{12})\.json")


@dataclass(frozen=True)
class Checkpoint:
    """What is stored: named tensors (any dtype, CPU) and plain JSON facts."""

    term: int
    step: int
    tensors: Mapping[str, torch.Tensor]
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Found:
    """The newest checkpoint that verifies, and why newer ones were passed over."""

    checkpoint: Checkpoint
    refused: tuple[str, ...] = ()


class FencedError(DaddyError):
    """A newer term has written here: what an older one has to say is not wanted any more."""

    exit_code = ExitCode.NOT_NEEDED


def save(folder: Path, checkpoint: Checkpoint, max_keep: int, keep_hours: int = 0) -> Path:
    """Write a checkpoint and prune older ones; returns the manifest's path.

    OSError if it fails, FencedError where a newer term's checkpoint lies.
    """
    _refuse_fenced(folder, checkpoint.term)
    name = f"t{checkpoint.term:06d}-s{checkpoint.step:012d}"
    blob = tensors_to_bytes({key: _plain(value) for key, value in checkpoint.tensors.items()})
    write_atomic(folder / f"{name}.safetensors", blob)
    manifest = {
        "v": VERSION,
        "term": checkpoint.term,
        "step": checkpoint.step,
        "sha256": sha256_hex(blob),
        "bytes": len(blob),
        "facts": dict(checkpoint.facts),
    }
    _refuse_fenced(folder, checkpoint.term)  # it may have been suspended since
    write_json(folder / f"{name}.json", manifest)
    _prune(folder, max_keep, keep_hours)
    return folder / f"{name}.json"


def _refuse_fenced(folder: Path, term: int) -> None:
    newest = newest_term(folder)
    if newest > term:
        raise FencedError(
            f"a checkpoint of term {term} is refused: {folder} holds one of term {newest}",
            "nothing is to be done: this learner's slot was given to another",
        )


def load_newest(folder: Path) -> Found | None:
    """The newest checkpoint that verifies; None where none was ever written.

    FileError when there are some and every one is damaged: starting anew in silence would throw
    the run's progress away. FileError too when the newest may well be whole and only cannot be
    read now: going back behind it would lose steps for a moment's trouble.
    """
    refused: list[tuple[Path, str]] = []
    for path in manifests(folder):
        try:
            checkpoint = load(path)
        except FileError as error:
            if _may_pass(error):
                raise
            refused.append((path, error.message))
            continue
        _set_aside(path for path, _ in refused)
        return Found(checkpoint, tuple(reason for _, reason in refused))
    if not refused:
        return None
    raise FileError(
        f"none of the {len(refused)} checkpoints in {folder} can be used; newest: {refused[0][1]}",
        "restore one from a backup, or move the folder away to start this slot from the shared "
        "weights",
    )


def _may_pass(error: FileError) -> bool:
    """Whether the disk, and not what is on it, is at fault; a bad sector stays bad."""
    cause = error.__cause__
    gone = isinstance(cause, FileNotFoundError)
    return isinstance(cause, OSError) and not gone and cause.errno != errno.EIO


def load(manifest_path: Path) -> Checkpoint:
    """One checkpoint, verified; FileError that says what is wrong with it."""
    try:
        manifest = read_json(manifest_path, _MANIFEST_LIMIT)
        if manifest.get("v") != VERSION:
            raise FileError(f"{manifest_path} has format {manifest.get('v')}, not {VERSION}")
        blob = _verified_blob(manifest_path.with_suffix(".safetensors"), manifest)
        return Checkpoint(
            int(manifest["term"]),
            int(manifest["step"]),
            tensors_from_bytes(blob),
            manifest["facts"],
        )
    except FileNotFoundError as error:
        raise FileError(f"{error.filename} is missing") from error
    except (KeyError, TypeError, ValueError, SafetensorError) as error:
        raise FileError(f"{manifest_path} cannot be understood: {error}") from error


def _verified_blob(path: Path, manifest: Mapping[str, Any]) -> bytes:
    blob = read_bounded(path, _BLOB_LIMIT)
    if len(blob) != manifest["bytes"]:
        raise FileError(f"{path} is truncated: {len(blob)} of {manifest['bytes']} bytes")
    if sha256_hex(blob) != manifest["sha256"]:
        raise FileError(f"{path} does not have the hash its manifest names")
    return blob


def manifests(folder: Path) -> list[Path]:
    """Manifests of all checkpoints, newest first."""
    if not folder.is_dir():
        return []
    named = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    return sorted(named, key=lambda path: path.name, reverse=True)


def newest_term(folder: Path) -> int:
    """The highest term that wrote a checkpoint here; 0 where none did."""
    newest = manifests(folder)[:1]
    return int(newest[0].name[1:7]) if newest else 0


def expendable(stamped: Sequence[tuple[Path, float]], max_keep: int, keep_hours: int) -> list[Path]:
    """Which of these (newest first, with the second they were written) need not be kept.

    Kept are the newest `max_keep`, and of older ones the first of each hour, until it is
    `keep_hours` older than the newest: a way back from what goes wrong slowly.
    """
    newest = stamped[0][1] if stamped else 0.0
    first_of_hour = {int(stamp // _HOUR_S): path for path, stamp in stamped}
    return [
        path
        for path, stamp in stamped[max(1, max_keep) :]
        if newest - stamp > keep_hours * _HOUR_S
        or not keep_hours
        or first_of_hour[int(stamp // _HOUR_S)] != path
    ]


def _set_aside(damaged: Any) -> None:
    """Rename damaged manifests, so that they are judged once and stay for a person to look at."""
    for path in damaged:
        path.replace(path.with_suffix(".json.broken"))


def _prune(folder: Path, max_keep: int, keep_hours: int) -> None:
    """Remove what retention lets go; a manifest goes before its blob, so none is ever dangling."""
    stamped = [(path, path.stat().st_mtime) for path in manifests(folder)]
    for path in expendable(stamped, max_keep, keep_hours):
        path.unlink(missing_ok=True)
        path.with_suffix(".safetensors").unlink(missing_ok=True)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().cpu().contiguous()


def tensor_of(data: bytes) -> torch.Tensor:
    """Bytes as a tensor (len,) uint8; empty bytes are a tensor of no elements."""
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0).byte()


def bytes_of(tensor: torch.Tensor) -> bytes:
    """The inverse of `tensor_of`."""
    return tensor.numpy().tobytes()


def with_prefix(tensors: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The tensors whose names begin with `prefix`, without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }
