"""Door to paramiko's reading of OpenSSH's config file, as far as it goes.

What paramiko would pass over in silence, and OpenSSH would not, is done here or refused by name.
"""

from __future__ import annotations

import shlex
from glob import glob
from pathlib import Path

import paramiko

from Daddy.core.ssh.troubles import INSTALL, PersonNeededError

_DEEPEST = 16
"""As OpenSSH has it."""


def read_config(name: str, file: str) -> paramiko.SSHConfigDict:
    """What ``file`` (empty: ``~/.ssh/config``) has of host ``name``; nothing when there is no file.

    PersonNeededError when it cannot be read, or leads further than paramiko goes.
    """
    path = Path(file or "~/.ssh/config").expanduser()
    try:
        lines = _whole(path, path.parent)
        facts = paramiko.SSHConfig.from_text("\n".join(lines)).lookup(name)
    except (FileNotFoundError, NotADirectoryError):
        return paramiko.SSHConfigDict()
    except (OSError, ValueError, LookupError, ImportError, paramiko.ConfigParseError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise PersonNeededError(
            f"{path} cannot be used: {said}", f"mend it, or {INSTALL}"
        ) from error
    _refuse_jumps(name, facts)
    return facts


def _whole(path: Path, folder: Path, deep: int = 0) -> list[str]:
    """The lines of a config with those that it includes in their place: paramiko knows no Include.

    Relative names are looked for in ``folder``; what follows an Include belongs to the block that
    it stood in. ValueError when files include each other.
    """
    if deep > _DEEPEST:
        raise ValueError(f"more than {_DEEPEST} files include each other")
    lines, block = [], "Host *"
    for line in path.read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        word, _, rest = line.strip().replace("=", " ", 1).replace("\t", " ").partition(" ")
        if word.lower() == "include":
            for pattern in shlex.split(rest):
                where = str(folder / Path(pattern).expanduser())
                found = sorted(map(Path, glob(where)))  # noqa: PTH207 - it may be absolute
                for file in filter(Path.is_file, found):  # a link to nothing includes nothing
                    lines += _whole(file, folder, deep + 1)
            lines.append(block)
        else:
            block = line if word.lower() in ("host", "match") else block
            lines.append(line)
    return lines


def _refuse_jumps(name: str, facts: paramiko.SSHConfigDict) -> None:
    for word in ("proxyjump", "proxycommand"):
        if (by := facts.get(word, "none")) and by != "none":
            text = f"{name} is reached by another host ({word} {by}), which only OpenSSH can do"
            raise PersonNeededError(text, INSTALL)
