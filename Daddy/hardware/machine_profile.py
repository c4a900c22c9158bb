"""What a machine was measured to give, kept per user id so that ``--num-envs auto`` can use it.

One small JSON file per user id. A profile of another machine (a home folder can be shared) is
recognised by its facts and not used. A damaged one is an error that names the file and its remedy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter

from Daddy.core.atomic_files import read_json, write_json
from Daddy.core.errors import FileError
from Daddy.core.name_validation import check_peer
from Daddy.hardware.recommend_envs import MachineFacts, Measurement

FORMAT = 1
MEMORY_TOLERANCE = 0.1
"""Share by which two readings of one machine's memory may differ (kernels reserve some)."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One measurement: whose, on what, of what, when (seconds since 1970), and what follows."""

    user_id: str
    facts: MachineFacts
    workload: str
    backend: str
    measured_at: float
    rows: tuple[Measurement, ...]
    envs: Annotated[int, Field(ge=1)]
    reasons: tuple[str, ...]
    groups: int = 0

    def fits(self, facts: MachineFacts) -> bool:
        """Whether it was measured on a machine like this one."""
        apart = abs(facts.memory_bytes - self.facts.memory_bytes)
        return facts.cores == self.facts.cores and (
            apart <= MEMORY_TOLERANCE * self.facts.memory_bytes
        )


_PROFILE = TypeAdapter(Profile)


def default_folder(environ: Mapping[str, str], home: Path) -> Path:
    """``$XDG_CONFIG_HOME/daddy/profiles``, else ``~/.config/daddy/profiles``."""
    base = environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else home / ".config") / "daddy" / "profiles"


def profile_path(folder: Path, user_id: str) -> Path:
    """Where the profile of ``user_id`` lies; UsageError when that is no name for a file."""
    return folder / f"{check_peer(user_id)}.json"


def save_profile(folder: Path, profile: Profile) -> Path:
    """Write it, whole or not at all; returns where."""
    path = profile_path(folder, profile.user_id)
    write_json(path, {"format": FORMAT, **dataclasses.asdict(profile)})
    return path


def load_profile(folder: Path, user_id: str) -> Profile | None:
    """The stored profile, None when there is none; FileError when it cannot be understood."""
    path = profile_path(folder, user_id)
    try:
        record = read_json(path)
    except FileNotFoundError:
        return None
    try:
        if record.pop("format") != FORMAT:
            raise ValueError("another format")
        return _PROFILE.validate_python(record)
    except (KeyError, ValueError) as error:
        raise FileError(
            f"{path} is no profile of format {FORMAT}: {error!r}",
            f"measure again: python -m Daddy.autotune --user-id {user_id}",
        ) from error
