"""The cluster login that ``sync_weights.sh setup`` saves for a laptop's programs; ssh sockets.

The file ``~/.config/daddy/sync.json`` has the login, and those of the laptop's keys (in ``keys/``
beside it) that passed a test there. The sockets of shared ssh connections lie in a private folder
with a short path, because a socket's path may have about 100 characters. A socket's name is a hash
of login and key: ssh's own ``%C`` leaves the key out, so that two keys would share a connection.
"""

import contextlib
import hashlib
import os
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path

from Daddy.core.atomic_files import read_json, write_atomic
from Daddy.core.errors import ConfigError, FileError

SETUP = "./Daddy/cluster/sync_weights.sh setup"
RECEIVER = ".config/daddy/receiver.py"
"""Path in the home folder on the cluster of the program that the lines of laptops' keys run."""
_RECEIVER_CODE = Path(__file__).parents[1] / "weights" / "laptop" / "key_receiver.py"


def setup_line(user: str, host: str, folder: Path) -> str:
    """Return the shell line with which a laptop joins the run of this ``shared_weights`` folder."""
    named = {"SYNC_CLUSTER_USER": user, "SYNC_CLUSTER_HOST": host, "SYNC_REMOTE_DIR": str(folder)}
    return " ".join([*(f"{name}={shlex.quote(text)}" for name, text in named.items()), SETUP])


def write_receiver(home: Path) -> None:
    """Write the receiver into ``home`` of an account on the cluster. Raise OSError."""
    write_atomic(home / RECEIVER, _RECEIVER_CODE.read_bytes(), mode=0o500)


def settings_path(environ: Mapping[str, str], home: Path) -> Path:
    """Return the path of the file in which ``setup`` saves the login."""
    chosen = environ.get("XDG_CONFIG_HOME")
    return (Path(chosen) if chosen else home / ".config") / "daddy" / "sync.json"


def key_folder(environ: Mapping[str, str], home: Path) -> Path:
    """Return the folder of the laptop's own three ssh keys."""
    return settings_path(environ, home).parent / "keys"


def read_saved_cluster(path: Path) -> dict[str, str]:
    """Return the content of ``sync.json``, {} without that file. ConfigError if damaged."""
    try:
        return {key: str(value) for key, value in read_json(path).items()}
    except FileNotFoundError:
        return {}
    except FileError as error:
        raise ConfigError(error.message, f"remove {path} and run: {SETUP}") from error


def saved_login(saved: Mapping[str, str]) -> str:
    """Return the saved ``user@host`` or host; empty when there is none."""
    user, host = saved.get("user", ""), saved.get("host", "")
    return f"{user}@{host}" if user and host else host


def tunnel_options(saved: Mapping[str, str], home: Path) -> str:
    """Return the ssh options of a key that opens the tunnel (its line is of an older release) and a
    space; empty without such a key.
    """
    key = saved.get("tunnel_key", "")
    if not key or saved.get("tunnel_by") == "attach":
        return ""
    words = ["-N", "-i", key, "-o", "IdentitiesOnly=yes"]
    words += ["-F", saved["ssh_config"]] if saved.get("ssh_config") else []
    words += ["-p", saved["port"]] if saved.get("port") else []
    return " ".join(short_path(word, home) for word in words) + " "


def short_path(text: str, home: Path) -> str:
    """Quote a path for a shell, with ``~`` for ``home`` where that needs no quotes."""
    inside = text.removeprefix(f"{home}/")
    if inside != text and shlex.quote(inside) == inside:
        return f"~/{inside}"
    return text if text.startswith("~/") else shlex.quote(text)


def master_socket(login: str, port: str, key: str, ssh_config: str) -> Path:
    """Return the path of the ssh socket of a login and key; FileError if others can use it."""
    text = f"{login} {port} {key} {ssh_config}"
    return _private_folder() / hashlib.sha256(text.encode()).hexdigest()[:8]


def login_socket(master: Path) -> Path:
    """Return the socket of the connection that ``sync_weights.sh login`` opened."""
    return master.with_suffix(".login")


def _private_folder() -> Path:
    folder = Path("/tmp") / f".daddy-{os.getuid()}"  # noqa: S108 - checked below
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise FileError(f"{folder} is not a private folder of yours", f"remove {folder}")
    return folder
