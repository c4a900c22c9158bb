"""Door to paramiko's reading of OpenSSH's config file, as far as it goes.

What paramiko would pass over in silence, and OpenSSH would not, is refused by name.
"""

from __future__ import annotations

import re
from pathlib import Path

import paramiko

from Daddy.core.ssh.troubles import INSTALL, PersonNeededError

_INCLUDE = re.compile(r"^\s*include[\s=]", re.IGNORECASE | re.MULTILINE)


def read_config(name: str, file: str) -> paramiko.SSHConfigDict:
    """What ``file`` (empty: ``~/.ssh/config``) has of host ``name``; nothing when there is no file.

    PersonNeededError when it cannot be read, or leads further than paramiko goes.
    """
    path = Path(file or "~/.ssh/config").expanduser()
    try:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
        _refuse_includes(path, text)
        facts = paramiko.SSHConfig.from_text(text).lookup(name)
    except (FileNotFoundError, NotADirectoryError):
        return paramiko.SSHConfigDict()
    except (OSError, ValueError, LookupError, ImportError, paramiko.ConfigParseError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise PersonNeededError(
            f"{path} cannot be used: {said}", f"mend it, or {INSTALL}"
        ) from error
    _refuse_jumps(name, facts)
    return facts


def _refuse_includes(path: Path, text: str) -> None:
    if _INCLUDE.search(text):
        said = f"{path} includes other files (Include), which only OpenSSH can do"
        raise PersonNeededError(said, INSTALL)


def _refuse_jumps(name: str, facts: paramiko.SSHConfigDict) -> None:
    for word in ("proxyjump", "proxycommand"):
        if (by := facts.get(word, "none")) and by != "none":
            text = f"{name} is reached by another host ({word} {by}), which only OpenSSH can do"
            raise PersonNeededError(text, INSTALL)
