"""Door to paramiko's client: a login by key, as OpenSSH's own config file has it.

Host keys are strict and nothing is ever asked for. The config file is honoured for host name, port,
user, key and known hosts. Everything that paramiko raises becomes a NetworkError that says what to
do.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import paramiko
from paramiko.ssh_exception import NoValidConnectionsError

from Daddy.core.errors import ConfigError, NetworkError
from Daddy.core.ssh.troubles import LoginRefusedError, PersonNeededError

CONNECT_S = 10.0
_INSTALL = "install OpenSSH's client (openssh-client)"
_ADD = f"add a key there (.pub line to ~/.ssh/authorized_keys, ssh-copy-id), or {_INSTALL}"
_QUIET = logging.NullHandler()
_KINDS = (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey)


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


class _Strict(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]
    """Nobody who is not known is talked to."""

    def missing_host_key(self, _client: object, hostname: str, key: Any) -> NoReturn:
        digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
        line = f"{hostname} {key.get_name()} {key.get_base64()}"
        raise PersonNeededError(
            f"{hostname} cannot be used: its host key is not known here yet",
            f"compare SHA256:{digest} with the cluster's page, and if it is the same "
            f"append this line to ~/.ssh/known_hosts: {line}",
        )


class _Silent(paramiko.Transport):  # type: ignore[misc]
    """Asks nobody at our terminal where a key is not all that is wanted."""

    def auth_interactive_dumb(self, *_: object, **__: object) -> NoReturn:
        raise paramiko.AuthenticationException("more than a key is wanted there")


def log_in(host: Host) -> paramiko.SSHClient:
    """Log in with a key; NetworkError when that fails, for whatever reason."""
    logging.getLogger("paramiko").addHandler(_QUIET)  # else what we translate is printed, too
    with translated(host.name):
        facts = _facts(host)
        _refuse_jumps(host.name, facts)
        client = paramiko.SSHClient()
        client.set_missing_host_key_policy(_Strict())
        for known in str(facts.get("userknownhostsfile") or "~/.ssh/known_hosts").split():
            with contextlib.suppress(FileNotFoundError):
                client.load_host_keys(str(Path(known).expanduser()))
        try:
            _connect(client, host, facts)
        except BaseException:
            client.close()
            raise
        return client


def _connect(client: paramiko.SSHClient, host: Host, facts: paramiko.SSHConfigDict) -> None:
    named = [host.key] if host.key else list(facts.get("identityfile", []))
    keys = [str(path) for key in named if (path := Path(key).expanduser()).is_file()]
    try:
        client.connect(
            facts.get("hostname", host.name),
            port=_port(host.port or str(facts.get("port", 22))),
            username=host.user or facts.get("user"),
            key_filename=keys or None,
            look_for_keys=not named,
            allow_agent=host.agent,
            timeout=CONNECT_S,
            banner_timeout=CONNECT_S,
            auth_timeout=CONNECT_S,
            transport_factory=_Silent,
        )
    except paramiko.BadHostKeyException:
        raise
    except paramiko.SSHException as error:
        transport = client.get_transport()
        if transport is not None and transport.is_active() and "timeout" not in str(error).lower():
            raise _refused(host.name, keys, str(error)) from error
        raise NetworkError(
            f"{host.name} cannot be used: it ended the login ({error})",
            "is the network well? An agent with many keys may have offered too many",
        ) from error


def _refused(name: str, keys: Sequence[str], said: str) -> LoginRefusedError:
    """The server is there and is who it should be; what it said last may be of any key."""
    if locked := [key for key in keys if _is_locked(key)]:
        fix = f"give it to your agent (ssh-add), or {_ADD}"
        return LoginRefusedError(f"{name}: {locked[0]} has a passphrase, and no agent has it", fix)
    if "more than a key" in said:
        return LoginRefusedError(
            f"{name} refuses our key alone: {said}", f"{_INSTALL}, to be asked"
        )
    return LoginRefusedError(f"{name} refuses our key", _ADD)


def _is_locked(path: str) -> bool:
    for kind in _KINDS:
        try:
            kind.from_private_key_file(path)
        except paramiko.PasswordRequiredException:
            return True
        except (paramiko.SSHException, OSError, ValueError):
            continue
        return False
    return False


def _refuse_jumps(name: str, facts: paramiko.SSHConfigDict) -> None:
    for word in ("proxyjump", "proxycommand"):
        if (by := facts.get(word, "none")) and by != "none":
            text = f"{name} is reached by another host ({word} {by}), which only OpenSSH can do"
            raise PersonNeededError(text, _INSTALL)


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
        fix = "ask the cluster's people whether it changed; if so, remove its known_hosts line"
        raise PersonNeededError(f"{host} shows another host key than before", fix) from error
    except (paramiko.SSHException, TimeoutError, EOFError, ConnectionError) as error:
        text = f"{host} cannot be used: {_words(error)}"
        raise NetworkError(text, "are name and port right, are you online, a VPN?") from error
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno is None or error.filename is None:
            text = f"{host} cannot be used: {_words(error)}"
            raise NetworkError(text, "is the name right, are you online, a VPN?") from error
        raise


def _words(error: BaseException) -> str:
    """Of several addresses that failed, the first one's reason."""
    if isinstance(error, NoValidConnectionsError):
        error = next(iter(error.errors.values()), error)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
