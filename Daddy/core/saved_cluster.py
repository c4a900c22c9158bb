"""The cluster that ``sync_weights.sh setup`` keeps for a laptop's programs, and ssh's sockets.

One file of plain texts, ``~/.config/daddy/sync.json``: the login, and which of the laptop's own
keys (beside it, in ``keys/``) were tried there and found to do what they are for. Shared
connections of ssh have their sockets in a private folder with a short path, because socket paths
end at about 100 characters. A socket's name holds login and key: ssh's own ``%C`` leaves the key
out, and one key's work would go over another.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path

from Daddy.core.atomic_files import read_json
from Daddy.core.errors import ConfigError, FileError

SETUP = "./Daddy/cluster/sync_weights.sh setup"


def settings_path(environ: Mapping[str, str], home: Path) -> Path:
    """Where ``setup`` remembers what it was told."""
    chosen = environ.get("XDG_CONFIG_HOME")
    return (Path(chosen) if chosen else home / ".config") / "daddy" / "sync.json"


def key_folder(environ: Mapping[str, str], home: Path) -> Path:
    """Where the laptop's own three keys lie."""
    return settings_path(environ, home).parent / "keys"


def read_saved_cluster(path: Path) -> dict[str, str]:
    """What ``setup`` kept; empty when there is nothing. ConfigError when it is damaged."""
    try:
        return {key: str(value) for key, value in read_json(path).items()}
    except FileNotFoundError:
        return {}
    except FileError as error:
        raise ConfigError(error.message, f"remove {path} and run: {SETUP}") from error


def saved_login(kept: Mapping[str, str]) -> str:
    """``user@host`` or the host alone, as ``setup`` kept it; empty when it did not."""
    user, host = kept.get("user", ""), kept.get("host", "")
    return f"{user}@{host}" if user and host else host


def tunnel_options(kept: Mapping[str, str], home: Path) -> str:
    """How ssh opens the tunnel with the key that can do nothing else; empty without such a key.

    Ends in a space, for a line that a person copies into a shell.
    """
    key = kept.get("tunnel_key", "")
    if not key:
        return ""
    words = ["-N", "-i", key, "-o", "IdentitiesOnly=yes"]
    words += ["-F", kept["ssh_config"]] if kept.get("ssh_config") else []
    words += ["-p", kept["port"]] if kept.get("port") else []
    return " ".join(short_path(word, home) for word in words) + " "


def short_path(text: str, home: Path) -> str:
    """A word for a shell; below ``home`` it begins with ``~``, where that needs no quotes."""
    inside = text.removeprefix(f"{home}/")
    if inside != text and shlex.quote(inside) == inside:
        return f"~/{inside}"
    return text if text.startswith("~/") else shlex.quote(text)


def master_socket(login: str, port: str, key: str, ssh_config: str) -> Path:
    """The path without an ending; FileError when the folder is not ours alone."""
    text = f"{login} {port} {key} {ssh_config}"
    return _private_folder() / hashlib.sha256(text.encode()).hexdigest()[:8]


def login_socket(master: Path) -> Path:
    """Where the connection listens that a person opened with ``sync_weights.sh login``."""
    return master.with_suffix(".login")


def _private_folder() -> Path:
    folder = Path("/tmp") / f".daddy-{os.getuid()}"  # noqa: S108 - checked below
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    facts = os.lstat(folder)
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise FileError(f"{folder} is not a private folder of yours", f"remove {folder}")
    return folder
