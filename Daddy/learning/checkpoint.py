"""Stores and loads the checkpoints of one learner: atomic, verified, never a pickle.

A checkpoint is a blob (safetensors) and a manifest (JSON with the blob's hash and the counters).
The manifest is written last: a blob without a manifest is ignored. File names sort by (term,
step), so that a process of an expired term cannot hide the checkpoints of its successor; a later
one of the same step gets a `_` more and sorts after it. A checkpoint that fails its hash is
renamed, never deleted, and the one before it is used.
"""

import errno
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as tensors_to_bytes

from Daddy.core.atomic_files import (
    DISK_FULL,
    read_bounded,
    read_json,
    sha256_hex,
    write_atomic,
    write_json,
)
from Daddy.core.errors import DaddyError, ExitCode, FileError
from Daddy.core.name_validation import unique_names

VERSION = 1
_MANIFEST_LIMIT = 4 * 1024 * 1024
_BLOB_LIMIT = 4 * 1024**3
_HOUR_S = 3600.0
_NAME = re.compile(r"t(\d{6})-s(\d{12})_*\.json")


@dataclass(frozen=True)
class Checkpoint:
    """Holds named tensors (any dtype, on the CPU) and JSON facts of a learner at `step`."""

    term: int
    step: int
    tensors: Mapping[str, torch.Tensor]
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class LoadedCheckpoint:
    """Holds the newest checkpoint that verifies, and the reasons to refuse newer ones."""

    checkpoint: Checkpoint
    refused: tuple[str, ...] = ()


class FencedError(DaddyError):
    """Reports that the folder holds checkpoints of a newer term of the slot's lease."""

    exit_code = ExitCode.NOT_NEEDED


def save_checkpoint(
    folder: Path, checkpoint: Checkpoint, max_keep: int, keep_hours: int = 0
) -> Path:
    """Write a checkpoint and prune older ones; return the manifest's path.

    On a full disk it makes room first. OSError if writing fails, FencedError if `folder` holds a
    checkpoint of a newer term.
    """
    _refuse_fenced(folder, checkpoint.term)
    name = f"t{checkpoint.term:06d}-s{checkpoint.step:012d}"
    while (folder / f"{name}.json").exists():  # never over a complete checkpoint: a kill would tear
        name += "_"
    plain = {key: value.detach().cpu().contiguous() for key, value in checkpoint.tensors.items()}
    blob, path = tensors_to_bytes(plain), folder / f"{name}.json"
    manifest = {
        "v": VERSION,
        "term": checkpoint.term,
        "step": checkpoint.step,
        "sha256": sha256_hex(blob),
        "bytes": len(blob),
        "facts": dict(checkpoint.facts),
    }
    while not _write_files(path, blob, manifest):
        pass
    _prune(folder, max_keep, keep_hours)
    return path


def _write_files(path: Path, blob: bytes, manifest: Mapping[str, Any]) -> bool:
    """Write blob and manifest; return False if the disk is full and older files were deleted."""
    try:
        write_atomic(path.with_suffix(".safetensors"), blob)
        _refuse_fenced(path.parent, manifest["term"])  # it may have been suspended meanwhile
        write_json(path, manifest)
    except (OSError, FencedError) as error:
        path.with_suffix(".safetensors").unlink(missing_ok=True)
        if getattr(error, "errno", None) in DISK_FULL and _make_room(path.parent):
            return False
        raise
    return True


def _make_room(folder: Path) -> bool:
    """Delete a killed process's files, else the oldest checkpoint; return True if one was deleted.

    The newest two that verify are kept, and all that are newer than the second.
    """
    manifests = list_manifests(folder)
    known = {path.name.partition(".")[0] for path in folder.glob("t*.json*")}
    left = [path for path in folder.glob("t*.safetensors") if path.stem not in known]
    left += folder.glob(".tmp-*")
    for path in left:
        path.unlink(missing_ok=True)
    verified = (path for path in manifests if _verifies(path))
    second = next(islice(verified, 1, None), None)
    older = manifests[manifests.index(second) + 1 :] if second and not left else []
    _delete(older[-1:])
    return bool(left or older)


def _verifies(manifest_path: Path) -> bool:
    try:
        load_checkpoint(manifest_path)
    except FileError:
        return False
    return True


def _refuse_fenced(folder: Path, term: int) -> None:
    newest = newest_term(folder)
    if newest > term:
        raise FencedError(
            f"a checkpoint of term {term} is refused: {folder} holds one of term {newest}",
            "nothing to do: another process holds this learner's slot now",
        )


def load_newest(folder: Path) -> LoadedCheckpoint | None:
    """Load the newest checkpoint in `folder` that verifies; None if `folder` has no checkpoint.

    FileError if all are damaged, since a silent new start would lose the run's progress, or if the
    newest has a read error that may pass, since loading an older checkpoint would lose steps.
    """
    refused: list[tuple[Path, str]] = []
    for path in list_manifests(folder):
        try:
            checkpoint = load_checkpoint(path)
        except FileError as error:
            if _may_pass(error):
                raise
            refused.append((path, error.message))
            continue
        _set_aside(path for path, _ in refused)
        return LoadedCheckpoint(checkpoint, tuple(reason for _, reason in refused))
    if not refused:
        return None
    raise FileError(
        f"none of the {len(refused)} checkpoints in {folder} can be used; newest: {refused[0][1]}",
        "restore a checkpoint from a backup, or move the folder away to start from the shared "
        "weights",
    )


def _may_pass(error: FileError) -> bool:
    """Return True if the read error may pass: no missing file, no bad sector (EIO)."""
    cause = error.__cause__
    gone = isinstance(cause, FileNotFoundError)
    return isinstance(cause, OSError) and not gone and cause.errno != errno.EIO


def load_checkpoint(manifest_path: Path) -> Checkpoint:
    """Load and verify one checkpoint; FileError with the reason if it is not valid."""
    try:
        manifest = read_json(manifest_path, _MANIFEST_LIMIT)
        if manifest.get("v") != VERSION:
            raise FileError(f"{manifest_path} has format {manifest.get('v')}, not {VERSION}")
        blob = _verified_blob(manifest_path.with_suffix(".safetensors"), manifest)
        return Checkpoint(
            int(manifest["term"]),
            int(manifest["step"]),
            _read_tensors(blob),
            manifest["facts"],
        )
    except FileNotFoundError as error:
        raise FileError(f"{error.filename} is missing") from error
    except (KeyError, TypeError, ValueError, SafetensorError) as error:
        raise FileError(f"{manifest_path} is not a valid manifest: {error}") from error


def _read_tensors(blob: bytes) -> dict[str, torch.Tensor]:
    """Parse safetensors bytes. SafetensorError; ValueError if a tensor's name occurs twice, of
    which the library would hide the first.
    """
    tensors = tensors_from_bytes(blob)
    json.loads(blob[8 : 8 + int.from_bytes(blob[:8], "little")], object_pairs_hook=unique_names)
    return tensors


def _verified_blob(path: Path, manifest: Mapping[str, Any]) -> bytes:
    blob = read_bounded(path, _BLOB_LIMIT)
    if len(blob) != manifest["bytes"]:
        raise FileError(f"{path} is truncated: {len(blob)} of {manifest['bytes']} bytes")
    if sha256_hex(blob) != manifest["sha256"]:
        raise FileError(f"{path} does not have the SHA-256 that its manifest names")
    return blob


def list_manifests(folder: Path) -> list[Path]:
    """Return the paths of all manifests in `folder`, newest checkpoint first."""
    if not folder.is_dir():
        return []
    named = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    return sorted(named, key=lambda path: path.name, reverse=True)


def newest_term(folder: Path) -> int:
    """Return the highest lease term that wrote a checkpoint in `folder`; 0 without any."""
    newest = list_manifests(folder)[:1]
    return int(newest[0].name[1:7]) if newest else 0


def checkpoints_to_delete(
    stamped: Sequence[tuple[Path, float]], max_keep: int, keep_hours: int
) -> list[Path]:
    """Return the paths to delete among `stamped`: paths with Unix seconds, newest first.

    Retention keeps the newest `max_keep`, and of older ones the first of each hour until it is
    `keep_hours` older than the newest, so that a slow failure can be undone.
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


def _set_aside(damaged: Iterable[Path]) -> None:
    """Rename damaged manifests to *.json.broken, so that no learner reads them again."""
    for path in damaged:
        path.replace(path.with_suffix(".json.broken"))


def _prune(folder: Path, max_keep: int, keep_hours: int) -> None:
    """Delete `checkpoints_to_delete`."""
    stamped = [(path, path.stat().st_mtime) for path in list_manifests(folder)]
    _delete(checkpoints_to_delete(stamped, max_keep, keep_hours))


def _delete(manifests: Iterable[Path]) -> None:
    """Delete checkpoints: each manifest before its blob, so none lacks a blob."""
    for path in manifests:
        path.unlink(missing_ok=True)
        path.with_suffix(".safetensors").unlink(missing_ok=True)


def bytes_to_tensor(data: bytes) -> torch.Tensor:
    """Return `data` as a tensor (len(data),) uint8."""
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0).byte()


def tensor_to_bytes(tensor: torch.Tensor) -> bytes:
    """Return the bytes of a tensor (n,) uint8 that `bytes_to_tensor` made."""
    return tensor.numpy().tobytes()


def select_prefix(tensors: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the tensors whose names begin with `prefix`, by their names without `prefix`."""
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }
