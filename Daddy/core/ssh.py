"""Door to paramiko: files over SFTP where rsync is not installed.

One connection per remote, host keys checked strictly, no password ever asked for. OpenSSH's own
config file is honoured for host name, port, user, key and known hosts. Everything that paramiko
raises becomes a NetworkError that says what to do.
"""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import paramiko

from Daddy.core.errors import ConfigError, FileError, NetworkError
from Daddy.core.names import new_token

CONNECT_S = 10.0
SILENCE_S = 30.0
"""Seconds without a byte after which a transfer counts as dead."""


@dataclass(frozen=True, slots=True)
class Host:
    """Whom to reach; empty fields are looked up in ``config`` (default ``~/.ssh/config``).

    Without ``agent`` only the key that is named is offered.
    """

    name: str
    user: str = ""
    port: str = ""
    key: str = ""
    config: str = ""
    agent: bool = True


class Sftp:
    """Files of one remote account. Not for use by several threads."""

    def __init__(self, client: paramiko.SSHClient, files: paramiko.SFTPClient) -> None:
        self._client = client
        self._files = files

    def fetch(self, source: str, target: Path, limit: int) -> bool:
        """Copy one file here under its name, whole; False when it does not exist.

        FileError when it is larger than ``limit`` bytes.
        """
        temp = target.with_name(f".{target.name}-{new_token()}")
        try:
            with _translated():
                size = self._files.stat(source).st_size or 0
                if size > limit:
                    raise FileError(f"{source} is larger than {limit} bytes", "it is not ours")
                self._files.get(source, str(temp))
            temp.replace(target)
        except FileNotFoundError:
            return False
        finally:
            temp.unlink(missing_ok=True)
        return True

    def send(self, source: Path, target: str) -> None:
        """Copy one file there under its name, whole or not at all; its folder is made."""
        folder, _, name = target.rpartition("/")
        temp = f"{folder}/.{name}-{new_token()}"
        with _translated():
            with contextlib.suppress(OSError):
                self._files.mkdir(folder)
            self._files.put(str(source), temp, confirm=True)
            self._files.posix_rename(temp, target)

    def names(self, folder: str) -> list[str]:
        """Plain files in a folder there; none when it does not exist."""
        with _translated():
            try:
                found = self._files.listdir_attr(folder)
            except FileNotFoundError:
                return []
        return sorted(one.filename for one in found if stat.S_ISREG(one.st_mode or 0))

    def close(self) -> None:
        """End the connection."""
        self._client.close()


def open_sftp(host: Host) -> Sftp:
    """Log in with a key; NetworkError when that fails, for whatever reason."""
    facts = _facts(host)
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    known = facts.get("userknownhostsfile") or "~/.ssh/known_hosts"
    with contextlib.suppress(FileNotFoundError):
        client.load_host_keys(str(Path(known).expanduser()))
    keys = [host.key] if host.key else list(facts.get("identityfile", []))
    keys = [str(Path(key).expanduser()) for key in keys]
    with _translated(host.name):
        client.connect(
            facts.get("hostname", host.name),
            port=_port(host.port or str(facts.get("port", 22))),
            username=host.user or facts.get("user"),
            key_filename=keys or None,
            look_for_keys=not keys,
            allow_agent=host.agent,
            timeout=CONNECT_S,
            banner_timeout=CONNECT_S,
            auth_timeout=CONNECT_S,
        )
        files = client.open_sftp()
        channel = files.get_channel()
        if channel is not None:
            channel.settimeout(SILENCE_S)
    return Sftp(client, files)


def _port(text: str) -> int:
    if not text.isdigit():
        raise ConfigError(f"{text!r} is no port", "look for Port in the ssh config")
    return int(text)


def _facts(host: Host) -> paramiko.SSHConfigDict:
    path = Path(host.config or "~/.ssh/config").expanduser()
    if not path.exists():
        return paramiko.SSHConfigDict()
    return paramiko.SSHConfig.from_path(str(path)).lookup(host.name)


@contextlib.contextmanager
def _translated(host: str = "the cluster") -> Iterator[None]:
    """Paramiko's errors in our words."""
    try:
        yield
    except paramiko.BadHostKeyException as error:
        fix = f"ask the cluster's people whether it changed; if so: ssh-keygen -R {host}"
        raise NetworkError(f"{host} shows another host key than before", fix) from error
    except paramiko.AuthenticationException as error:
        raise NetworkError(f"{host} refuses our key", "install it: ssh-copy-id") from error
    except (paramiko.SSHException, TimeoutError, EOFError, ConnectionError) as error:
        raise NetworkError(f"{host} cannot be used: {error}", f"try: ssh {host} true") from error
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno is None or error.filename is None:
            raise NetworkError(f"{host} cannot be used: {error}", f"try: ssh {host}") from error
        raise
