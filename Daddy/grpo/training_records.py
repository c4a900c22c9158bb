"""Reads and writes a training's records: its settings, and lines of metrics and errors by step."""

import argparse
import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import fmean
from typing import Any

from Daddy.core.arguments import whole_number
from Daddy.core.atomic_files import canonical_json, read_json, write_atomic
from Daddy.core.confidence_intervals import mean_interval
from Daddy.core.errors import ConfigError
from Daddy.core.file_lock import hold_lock
from Daddy.grpo.grpo_settings import Rows


def parse_seed_list(text: str) -> tuple[int, ...]:
    """Parse ``3`` as the seeds 0, 1, 2, and ``4,7`` as these two."""
    numbers = [whole_number(0, 10**6)(word) for word in text.split(",") if word.strip()]
    if not numbers or (numbers == [0] and "," not in text):
        raise argparse.ArgumentTypeError(f"{text!r} names no training")
    return tuple(range(numbers[0]) if "," not in text else dict.fromkeys(numbers))


def require_new(path: Path) -> None:
    """Raise ConfigError if a folder holds the settings of a run."""
    if path.exists():
        raise ConfigError(f"{path.parent} holds a run", "add --resume, or name another folder")


def begin_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write the settings of a new run. ConfigError if its folder holds one."""
    require_new(path)
    write_atomic(path, canonical_json(record))


def hold_training(lock: Path) -> AbstractContextManager[None]:
    """Keep other processes from writing into the lock's folder. ConfigError if one does."""
    fix = "wait for its end, or stop it"
    return hold_lock(lock, ConfigError(f"another process trains in {lock.parent}", fix))


def read_errors(root: Path) -> str:
    """Return the lines of all errors of a run: one for each completion or episode."""
    return "".join(path.read_text() for path in sorted(root.rglob("errors.log")))


def record_unsafe(path: Path) -> None:
    """Write into a run's settings that what its model wrote may have run without confinement."""
    write_atomic(path, canonical_json({**read_json(path), "unsafe": True}))


def read_record(path: Path) -> dict[str, Any]:
    """Return the settings of a run to be resumed. Raises ConfigError if there is none."""
    try:
        return read_json(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ConfigError(f"there is no run at {path.parent}", "name its folder") from error


def require_same(folder: Path, record: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise ConfigError if a setting that is `given` differs from the run's."""
    differing = [name for name, value in given.items() if record.get(name) != value]
    if differing:
        raise ConfigError(
            f"the run of {folder} differs in {', '.join(differing)}", "resume it as it began"
        )


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Return the JSON objects of a file's lines; a line that a crash cut is left out."""
    rows = []
    if path.is_file():
        for line in path.read_bytes().splitlines():
            with contextlib.suppress(ValueError):
                rows.append(json.loads(line))
    return rows


def drop_lines_after(step: int, files: Sequence[Path], errors: Path) -> None:
    """Remove lines of steps after the checkpoint that is resumed: they come again."""
    for path in files:
        rows = [json.dumps(row) for row in read_json_lines(path) if row["step"] <= step]
        write_atomic(path, "".join(f"{row}\n" for row in rows).encode())
    if errors.exists():
        lines = errors.read_text().splitlines(keepends=True)
        found = [(re.match(r"\w+ (\d+),", line), line) for line in lines]  # a cut line has none
        kept = [line for match, line in found if match and int(match[1]) <= step]
        write_atomic(errors, "".join(kept).encode())


def describe_changes(
    trainings: Sequence[Rows], keys: Sequence[str], steps: int, unit: str
) -> Iterator[str]:
    """Give means of metrics over the first and the last `steps`; trainings give an interval.

    `unit` is the word for steps.
    """
    for key in keys:
        columns = [[row[key] for row in rows if row.get(key) is not None] for rows in trainings]
        ends = [(fmean(values[:steps]), fmean(values[-steps:])) for values in columns]
        first, last = (fmean(column) for column in zip(*ends, strict=True))
        name = key.replace("_", " ")
        line = f"{name}: {first:.2f} in the first {steps} {unit}, {last:.2f} in the last"
        if len(ends) > 1:
            change = mean_interval([after - before for before, after in ends])
            line += (
                f"; change {change.middle:+.2f} [{change.low:+.2f}, {change.high:+.2f}], "
                f"95 % over {len(ends)} trainings"
            )
        yield line
