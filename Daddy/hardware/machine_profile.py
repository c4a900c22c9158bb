"""The measured profile of a machine, stored per user id for ``--num-envs auto``.

One small JSON file per user id. A profile of another machine with the same home folder is
recognised by its facts and not used. A damaged file is an error that names it and its remedy.
"""

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
"""Share by which two readings of a machine's memory may differ: kernels reserve some."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Holds a machine's measurement, its Unix time, and the recommended number of environments."""

    user_id: str
    facts: MachineFacts
    workload: str
    measured_at: float
    rows: tuple[Measurement, ...]
    envs: Annotated[int, Field(ge=1)]
    reasons: tuple[str, ...]
    groups: int = 0

    def fits(self, facts: MachineFacts) -> bool:
        """Return True if ``facts`` have the profile's number of cores and about its memory."""
        difference = abs(facts.memory_bytes - self.facts.memory_bytes)
        alike = difference <= MEMORY_TOLERANCE * self.facts.memory_bytes
        return alike and facts.cores == self.facts.cores


_PROFILE = TypeAdapter(Profile)


def default_folder(environ: Mapping[str, str], home: Path) -> Path:
    """Return ``daddy/profiles`` in $XDG_CONFIG_HOME, or in ``~/.config`` if that is unset."""
    base = environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else home / ".config") / "daddy" / "profiles"


def profile_path(folder: Path, user_id: str) -> Path:
    """Return the path of a user id's profile; UsageError when the id is no valid peer name."""
    return folder / f"{check_peer(user_id)}.json"


def save_profile(folder: Path, profile: Profile) -> Path:
    """Write a profile atomically and return its path."""
    path = profile_path(folder, profile.user_id)
    write_json(path, {"format": FORMAT, **dataclasses.asdict(profile)})
    return path


def load_profile(folder: Path, user_id: str) -> Profile | None:
    """Return the stored profile of a user id, or None; FileError when the file is damaged."""
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
