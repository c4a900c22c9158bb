"""Door to paramiko's client: a login by key, as OpenSSH's own config file has it.

Host keys are strict and nothing is ever asked for. The config file is honoured for host name, port,
user, key and known hosts. Everything that paramiko raises becomes a NetworkError that says what to
do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import paramiko

from Daddy.core.errors import ConfigError, NetworkError

CONNECT_S = 10.0


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


def log_in(host: Host) -> paramiko.SSHClient:
    """Log in with a key; NetworkError when that fails, for whatever reason."""
    facts = _facts(host)
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    known = facts.get("userknownhostsfile") or "~/.ssh/known_hosts"
    with contextlib.suppress(FileNotFoundError):
        client.load_host_keys(str(Path(known).expanduser()))
    keys = [host.key] if host.key else list(facts.get("identityfile", []))
    keys = [str(Path(key).expanduser()) for key in keys]
    with translated(host.name):
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
    return client


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
def translated(host: str = "the cluster") -> Iterator[None]:
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
