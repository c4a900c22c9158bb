"""Where the stream's tokens live: ``~/.config/daddy/stream.token``, mode 0600, on both sides.

A token file holds one token a line, so that a laptop may know several clusters and a run several
friends; removing a line revokes it. The file is read again for every connection.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path

from Daddy.core.errors import FileError
from Daddy.core.files import create_exclusive, read_bounded
from Daddy.core.paths import STREAM_TOKEN
from Daddy.streaming.wire.auth import TOKEN_BYTES, Token, parse_tokens

_FILE_LIMIT = 8192
_PRIVATE = stat.S_IRWXG | stat.S_IRWXO


def home_token(home: Path) -> Path:
    """The token file of the person whose home this is."""
    return home / STREAM_TOKEN


def run_token(stream: Path) -> Path:
    """Further tokens that may watch one run."""
    return stream / "token"


def ensure_token(path: Path, label: str) -> None:
    """Create ``path`` with a fresh token, readable by its owner alone, unless it exists."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        token = Token(secrets.token_bytes(TOKEN_BYTES), label)
        create_exclusive(path, f"{token.line()}\n".encode(), mode=0o600)


def load_tokens(paths: Iterable[Path]) -> tuple[Token, ...]:
    """The tokens of all files that exist; FileError when one is damaged or others may read it."""
    return tuple(token for path in paths for token in _load(path))


def _load(path: Path) -> tuple[Token, ...]:
    try:
        data = read_bounded(path, _FILE_LIMIT)
        mode = path.stat().st_mode
    except FileNotFoundError:
        return ()
    if os.name == "posix" and mode & _PRIVATE:
        raise FileError(f"others may read the token file {path}", f"chmod 600 {path}")
    try:
        return parse_tokens(data.decode("ascii"))
    except ValueError as error:
        raise FileError(
            f"{path}: {error}", "remove the line, or the file to get a new one"
        ) from error
