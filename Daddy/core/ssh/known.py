"""Door to the host keys that are known here: OpenSSH's ``known_hosts``, line by line.

A line that cannot be read is passed over, as OpenSSH does. A revoked key is refused.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import paramiko
from paramiko.hostkeys import HostKeyEntry

from Daddy.core.ssh.troubles import INSTALL, PersonNeededError

_LEAST_WORDS = 3
_PORT = 22


class Known(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]
    """What ``files`` have of one server; whom they do not know is not talked to.

    PersonNeededError when one of them is there and cannot be read.
    """

    def __init__(self, files: Sequence[str], address: str, port: int) -> None:
        self._server = address if port == _PORT else f"[{address}]:{port}"
        self._keys: list[Any] = []
        self._revoked: dict[bytes, str] = {}
        self._authority = False
        self._file = files[0]
        for file in files:
            for line in _lines(Path(file).expanduser()):
                with contextlib.suppress(Exception):  # whatever paramiko finds wrong with it
                    self._read(line, file)

    def teach(self, keys: paramiko.HostKeys) -> None:
        """Tell paramiko; the first key of a kind counts."""
        for key in self._keys:
            if key.asbytes() not in self._revoked:
                found = keys.lookup(self._server)
                if found is None or key.get_name() not in found:
                    keys.add(self._server, key.get_name(), key)

    def missing_host_key(self, _client: object, _hostname: str, key: Any) -> NoReturn:
        """Say what to do about a server of which no key is known."""
        self._refuse_revoked(key)
        name = self._server
        if self._authority:
            text = f"the host key of {name} is known by a certificate (@cert-authority)"
            raise PersonNeededError(f"{text}, which only OpenSSH can check", INSTALL)
        digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
        line = f"{name} {key.get_name()} {key.get_base64()}"
        raise PersonNeededError(
            f"{name} cannot be used: its host key is not known here yet",
            f"compare SHA256:{digest} with the cluster's page, and if it is the same "
            f"append this line to {self._file}: {line}",
        )

    def refuse_changed(self, name: str, key: Any) -> NoReturn:
        """Say what to do about host ``name``, which shows another key than is known."""
        self._refuse_revoked(key)
        raise PersonNeededError(
            f"{name} shows another host key than before",
            "ask the cluster's people whether it changed; if so, remove the lines of "
            f"{self._server} from {self._file}",
        )

    def _refuse_revoked(self, key: Any) -> None:
        if (file := self._revoked.get(key.asbytes())) is not None:
            text = f"{self._server} shows a host key that is revoked (@revoked in {file})"
            raise PersonNeededError(text, "somebody may have stolen it: ask the cluster's people")

    def _read(self, line: str, file: str) -> None:
        words = line.split()
        mark = words.pop(0) if line.startswith("@") else ""
        if len(words) < _LEAST_WORDS or not _names(words[0], self._server):
            return
        if mark == "@revoked":
            self._revoked[base64.b64decode(words[2], validate=True)] = file
        elif mark == "@cert-authority":
            self._authority = True
        elif not mark:
            entry = HostKeyEntry.from_line(" ".join(words[:_LEAST_WORDS]))
            if entry is not None:
                self._file = self._file if self._keys else file
                self._keys.append(entry.key)


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        text = f"{path} cannot be read: {error.strerror or error}"
        raise PersonNeededError(text, "make it a file that you may read") from error
    return [line.strip() for line in text.split("\n")]


def _names(patterns: str, server: str) -> bool:
    """Whether the first word of a line means ``server``: ``*``, ``?``, ``!`` and hashed names."""
    if patterns.startswith("|"):
        return bool(paramiko.HostKeys.hash_host(server, patterns) == patterns)
    found = False
    for pattern in patterns.split(","):
        if _fits(pattern.removeprefix("!"), server):
            if pattern.startswith("!"):
                return False
            found = True
    return found


def _fits(pattern: str, server: str) -> bool:
    signs = {"*": ".*", "?": "."}
    text = "".join(signs.get(one) or re.escape(one) for one in pattern)
    return re.fullmatch(text, server, re.IGNORECASE) is not None
