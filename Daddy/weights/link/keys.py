"""A laptop's own three keys: one to pull, one to push, one for the tunnel; made once, for ever.

They have no passphrase: nothing in the background may ask for one, and an agent that knows it is
not there after a reboot. What makes that bearable is what each may do at the other end: the lines
of ``authorized_lines``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from Daddy.core import process
from Daddy.core.errors import FileError
from Daddy.core.files import create_exclusive

KEY_S = 30.0


@dataclass(frozen=True, slots=True)
class Keys:
    """Private key files; the public one stands beside each, with ``.pub``."""

    pull: Path
    push: Path
    tunnel: Path


def own_keys(folder: Path, laptop: str) -> tuple[Keys, bool]:
    """The keys in ``folder``, made where one is missing, and whether any was. FileError.

    What exists is never written over; folder and keys are for their owner alone.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    keys = Keys(folder / "pull", folder / "push", folder / "tunnel")
    made = [_ensure(path, f"daddy-{path.name}@{laptop}") for path in (keys.pull, keys.push,
                                                                     keys.tunnel)]  # fmt: skip
    return keys, any(made)


def _ensure(path: Path, comment: str) -> bool:
    missing = not os.path.lexists(path)
    if missing:
        make_key(path, comment)
    path.chmod(0o600)
    if not path.with_suffix(".pub").exists():
        create_exclusive(path.with_suffix(".pub"), f"{_public(path)}\n".encode())
    return missing


def make_key(path: Path, comment: str = "") -> None:
    """A new ed25519 key without a passphrase. FileError when ssh is missing or refuses."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    argv = ["-q", "-t", "ed25519", "-N", "", "-f", str(path)]
    _keygen([*argv, "-C", comment] if comment else argv, path)


def _public(path: Path) -> str:
    return _keygen(["-y", "-P", "", "-f", str(path)], path).strip()


def _keygen(words: list[str], path: Path) -> str:
    try:
        done = process.run(["ssh-keygen", *words], KEY_S)
    except process.ProgramMissingError as error:
        raise FileError("ssh is not installed on this machine", "install openssh-client") from error
    if done.returncode:
        raise FileError(f"no key in {path}: {done.stderr.strip()}", f"ssh-keygen -f {path}")
    return done.stdout
