"""Adapter for a person's folder of start states: made by routes, recorded, or converted from files.

The format: a magic, one line of JSON (game, pyboy, origin, hash) and the deflated state. Files are
replaced atomically. A state of another game or pyboy, and a damaged one, count as missing.
"""

import json
import os
import re
import sys
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from Daddy.core.atomic_files import read_bounded, sha256_hex, write_atomic
from Daddy.core.errors import FileError, UsageError
from Daddy.pokemon.bounded_decoding import inflate
from Daddy.pokemon.emulator import PYBOY_VERSION

MAGIC: Final = b"DADDYSTART1\n"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,40}")
_LARGEST = 1 << 20


@dataclass(frozen=True)
class StartStateFolder:
    """Reads and writes the start states of one game, identified by its SHA-1."""

    root: Path
    sha1: str

    def state_path(self, name: str, origin: str) -> Path:
        """Return the path of a state's file, which `name` and `origin` (such as ``hand``) name."""
        return self.root / self.sha1 / f"{name}-{origin}-pyboy{PYBOY_VERSION}.start"

    def write_state(self, name: str, origin: str, state: bytes) -> Path:
        """Write a state and return its path. OSError."""
        facts = {"sha1": self.sha1, "pyboy": PYBOY_VERSION, "name": name, "origin": origin}
        line = json.dumps({**facts, "sha256": sha256_hex(state)}, sort_keys=True).encode()
        path = self.state_path(name, origin)
        write_atomic(path, MAGIC + line + b"\n" + zlib.compress(state, 6))
        return path

    def read_verified(self, name: str, origin: str) -> bytes | None:
        """Read a state; None if it is missing, or if it is damaged, with a warning on stderr."""
        try:
            data = read_bounded(self.state_path(name, origin), _LARGEST)
            return self._verified(data, {"name": name, "origin": origin})
        except FileNotFoundError:
            return None
        except (FileError, ValueError, KeyError, zlib.error) as error:
            print(f"warning: {self.state_path(name, origin)} is ignored: {error}", file=sys.stderr)
            return None

    def get_or_make(self, name: str, origin: str, make: Callable[[], bytes]) -> bytes:
        """Return the state from the folder; if missing, call `make` and write its result."""
        if (state := self.read_verified(name, origin)) is not None:
            return state
        state = make()
        try:
            self.write_state(name, origin, state)
        except OSError:
            print(f"warning: {self.root} is not writable: the state is not stored", file=sys.stderr)
        return state

    def state_names(self, origin: str) -> list[str]:
        """List the names of the states with this origin."""
        tail = f"-{origin}-pyboy{PYBOY_VERSION}.start"
        paths = (self.root / self.sha1).glob(f"*{tail}")
        return sorted(path.name.removesuffix(tail) for path in paths)

    def _verified(self, data: bytes, wanted: Mapping[str, Any]) -> bytes:
        head, line, packed = data.split(b"\n", 2)
        facts = json.loads(line)
        expected = {"sha1": self.sha1, "pyboy": PYBOY_VERSION, **wanted}
        if head + b"\n" != MAGIC or any(facts[key] != value for key, value in expected.items()):
            raise ValueError("it is of another game, pyboy or origin")
        state = inflate(packed, _LARGEST)
        if sha256_hex(state) != facts["sha256"]:
            raise ValueError("its bytes have another hash than was written")
        return state


def default_state_root(environ: Mapping[str, str], home: Path) -> Path:
    """Return ``daddy/starts`` in $XDG_CACHE_HOME, or in ``~/.cache`` if that is unset."""
    cache = environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else home / ".cache") / "daddy" / "starts"


def open_state_folder(sha1: str) -> StartStateFolder:
    """Return the folder of a game in this person's cache folder."""
    return StartStateFolder(default_state_root(os.environ, Path.home()).absolute(), sha1)


def check_state_name(name: str) -> str:
    """Return `name` if it can name a state; raise UsageError otherwise."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot name a start state", "use letters, digits, - and _, at most 41"
        )
    return name
