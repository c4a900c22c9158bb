"""Adapter for paramiko: files by SFTP where rsync is not installed, after a login by key.

Host keys are strict and nothing is ever asked for. OpenSSH's own config file is honoured for host
name, port, user, key and known hosts. Everything that paramiko raises becomes a NetworkError that
says what to do.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import logging
import re
import shlex
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from typing import Any, NoReturn

import paramiko
from paramiko.hostkeys import HostKeyEntry
from paramiko.ssh_exception import NoValidConnectionsError

from Daddy.core.errors import ConfigError, FileError, NetworkError
from Daddy.core.names import new_token

CONNECT_S = 10.0
INSTALL = "install OpenSSH's client (openssh-client; for files rsync, too)"
_ADD = f"add your key there (.pub line to ~/.ssh/authorized_keys), or {INSTALL}"
_PORTS = range(1, 65536)
_QUIET = logging.NullHandler()
_USUAL = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
_DEEPEST = 16
"""Files that include each other, as OpenSSH has it."""
_LEAST_WORDS = 3
_SSH_PORT = 22
_KINDS = (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey)


@dataclass(frozen=True, slots=True)
class Host:
    """Whom to reach; empty fields are looked up in ``config`` (default ``~/.ssh/config``).

    Without ``agent`` only the key that is named is offered; with IdentitiesOnly in the config the
    agent offers only keys whose ``.pub`` file is that of a key that is named.
    """

    name: str
    user: str = ""
    port: str = ""
    key: str = ""
    config: str = ""
    agent: bool = True


class _Silent(paramiko.Transport):  # type: ignore[misc]
    """Asks nobody at our terminal where a key is not all that is wanted.

    ``shown``: the server has said who it is; ``late``: an answer to a key did not come in time;
    ``only``: the public keys that an agent may offer (None: any).
    """

    only: frozenset[bytes] | None = None
    shown = False
    late = False

    def get_remote_server_key(self) -> Any:
        key = super().get_remote_server_key()
        self.shown = True
        return key

    def auth_publickey(self, username: str, key: Any, event: Any = None) -> Any:
        if self.late:
            raise paramiko.AuthenticationException("Authentication timeout.")
        if not self._may_be_offered(key):
            raise paramiko.AuthenticationException("this key of the agent's is not named")
        try:
            return super().auth_publickey(username, key, event)
        except paramiko.AuthenticationException as error:
            self.late = "timeout" in str(error).lower()
            raise

    def _may_be_offered(self, key: Any) -> bool:
        agents = isinstance(key, paramiko.AgentKey)
        return not agents or self.only is None or key.asbytes() in self.only

    def auth_interactive_dumb(self, *_: object, **__: object) -> NoReturn:
        raise paramiko.AuthenticationException("more than a key is wanted there")


def log_in(host: Host) -> paramiko.SSHClient:
    """Log in with a key; NetworkError when that fails, for whatever reason."""
    logging.getLogger("paramiko").addHandler(_QUIET)  # else what we translate is printed, too
    with translated(host.name), _odd_words(host.name):
        facts = _read_config(host.name, host.config)
        if not host.agent and host.key and not Path(host.key).expanduser().exists():
            fix = "make it anew (setup), or name another"
            raise NetworkError(f"the key {host.key} does not exist", fix)
        address = str(facts.get("hostname", host.name))
        port = _port(host.port or str(facts.get("port", 22)))
        files = str(facts.get("userknownhostsfile", "")).split() or ["~/.ssh/known_hosts"]
        known = _Known(files, address, port)
        client = paramiko.SSHClient()
        known.teach(client.get_host_keys())
        client.set_missing_host_key_policy(known)
        try:
            _connect(client, host, facts, address, port)
        except BaseException as error:
            client.close()
            if isinstance(error, paramiko.BadHostKeyException):
                known.refuse_changed(host.name, error.key)
            raise
        return client


def _connect(
    client: paramiko.SSHClient,
    host: Host,
    facts: paramiko.SSHConfigDict,
    address: str,
    port: int,
) -> None:
    named = [host.key] if host.key else list(facts.get("identityfile", []))
    keys = [str(path) for key in named if (path := Path(key).expanduser()).is_file()]
    try:
        client.connect(
            address,
            port=port,
            username=host.user or facts.get("user"),
            key_filename=keys or None,
            look_for_keys=not named,
            allow_agent=host.agent,
            timeout=CONNECT_S,
            banner_timeout=CONNECT_S,
            auth_timeout=CONNECT_S,
            transport_factory=_factory(_only(facts, named)),
        )
    except paramiko.BadHostKeyException:
        raise
    except paramiko.SSHException as error:
        raise _failed(host.name, client.get_transport(), named, error) from error


def _factory(only: frozenset[bytes] | None) -> Callable[..., _Silent]:
    def made(sock: object, **more: object) -> _Silent:
        transport = _Silent(sock, **more)
        transport.only = only
        return transport

    return made


def _only(facts: paramiko.SSHConfigDict, named: Sequence[str]) -> frozenset[bytes] | None:
    """The public keys that an agent may offer; None: any."""
    if str(facts.get("identitiesonly", "no")).lower() != "yes":
        return None
    found = set()
    for name in named or _USUAL:
        for path in (name, f"{name}.pub"):
            with contextlib.suppress(OSError, ValueError, IndexError):
                words = Path(path).expanduser().read_text(encoding="utf-8").split()
                found.add(base64.b64decode(words[1], validate=True))
    return frozenset(found)


def _failed(
    name: str, transport: _Silent | None, named: Sequence[str], error: paramiko.SSHException
) -> NetworkError:
    """A refusal only if the server showed itself and answered every key; else the network."""
    if transport is not None and transport.is_active():
        if transport.shown and not transport.late:
            return _refused(name, named, str(error))
        said = "it does not answer in time"
    else:
        said = f"it ended the login ({error})"
    fix = "is the network well? An agent with many keys may have offered too many"
    return NetworkError(f"{name} cannot be used: {said}", fix)


def _refused(name: str, named: Sequence[str], said: str) -> NetworkError:
    """The server is there and is who it should be; what it said last may be of any key."""
    if locked := [key for key in named if _is_locked(key)]:
        fix = f"give it to an agent that runs here, or {_ADD}"
        return NetworkError(f"{name}: {locked[0]} has a passphrase, and no agent has it", fix)
    if "more than a key" in said:
        return NetworkError(f"{name} refuses our key alone: {said}", f"{INSTALL}, to be asked")
    if named and not any(Path(key).expanduser().exists() for key in named):
        text = f"{name} refuses our login, and {' and '.join(named)} does not exist"
        return NetworkError(text, f"name a key that exists (IdentityFile), or {_ADD}")
    return NetworkError(f"{name} refuses our key", _ADD)


def _is_locked(key: str) -> bool:
    for kind in _KINDS:
        try:
            kind.from_private_key_file(str(Path(key).expanduser()))
        except paramiko.PasswordRequiredException:
            return True
        except (paramiko.SSHException, OSError, ValueError):
            continue
        return False
    return False


@contextlib.contextmanager
def _odd_words(name: str) -> Iterator[None]:
    """Names that cannot be any and files that cannot be read, for a person to mend."""
    try:
        yield
    except (ValueError, RuntimeError) as error:  # Runtime: ~ of an account that does not exist
        text = f"{name} cannot be used: {error}"
        fix = "are the host's name and the files in the ssh config right?"
        raise NetworkError(text, fix) from error
    except OSError as error:
        if error.filename is None:
            raise
        text = f"{error.filename} cannot be read: {error.strerror}"
        raise NetworkError(text, "make it a file that you may read") from error


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) in _PORTS):
        raise ConfigError(f"{text!r} is no port", "look for Port in the ssh config")
    return int(text)


@contextlib.contextmanager
def translated(host: str = "the cluster") -> Iterator[None]:
    """Paramiko's errors in our words."""
    try:
        yield
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


class _Known(paramiko.MissingHostKeyPolicy):  # type: ignore[misc]
    """What ``files`` have of one server; whom they do not know is not talked to.

    NetworkError when one of them is there and cannot be read.
    """

    def __init__(self, files: Sequence[str], address: str, port: int) -> None:
        self._server = address if port == _SSH_PORT else f"[{address}]:{port}"
        self._keys: list[Any] = []
        self._revoked: dict[bytes, str] = {}
        self._authority = False
        self._file = files[0]
        for file in files:
            for line in _known_lines(Path(file).expanduser()):
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
            raise NetworkError(f"{text}, which only OpenSSH can check", INSTALL)
        digest = base64.b64encode(hashlib.sha256(key.asbytes()).digest()).decode().rstrip("=")
        line = f"{name} {key.get_name()} {key.get_base64()}"
        raise NetworkError(
            f"{name} cannot be used: its host key is not known here yet",
            f"compare SHA256:{digest} with the cluster's page, and if it is the same "
            f"append this line to {self._file}: {line}",
        )

    def refuse_changed(self, name: str, key: Any) -> NoReturn:
        """Say what to do about host ``name``, which shows another key than is known."""
        self._refuse_revoked(key)
        raise NetworkError(
            f"{name} shows another host key than before",
            "ask the cluster's people whether it changed; if so, remove the lines of "
            f"{self._server} from {self._file}",
        )

    def _refuse_revoked(self, key: Any) -> None:
        if (file := self._revoked.get(key.asbytes())) is not None:
            text = f"{self._server} shows a host key that is revoked (@revoked in {file})"
            raise NetworkError(text, "somebody may have stolen it: ask the cluster's people")

    def _read(self, line: str, file: str) -> None:
        words = line.split()
        mark = words.pop(0) if line.startswith("@") else ""
        if len(words) < _LEAST_WORDS or not _means(words[0], self._server):
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


def _known_lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        text = f"{path} cannot be read: {error.strerror or error}"
        raise NetworkError(text, "make it a file that you may read") from error
    return [line.strip() for line in text.split("\n")]


def _means(patterns: str, server: str) -> bool:
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


def _read_config(name: str, file: str) -> paramiko.SSHConfigDict:
    """What ``file`` (empty: ``~/.ssh/config``) has of host ``name``; nothing when there is no file.

    NetworkError when it cannot be read, or leads further than paramiko goes.
    """
    path = Path(file or "~/.ssh/config").expanduser()
    try:
        lines = _whole(path, path.parent)
        facts = paramiko.SSHConfig.from_text("\n".join(lines)).lookup(name)
    except (FileNotFoundError, NotADirectoryError):
        return paramiko.SSHConfigDict()
    except (OSError, ValueError, LookupError, ImportError, paramiko.ConfigParseError) as error:
        said = getattr(error, "strerror", None) or str(error)
        raise NetworkError(f"{path} cannot be used: {said}", f"mend it, or {INSTALL}") from error
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
            raise NetworkError(text, INSTALL)


SILENCE_S = 30.0
"""Seconds without a byte after which a transfer counts as dead."""


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
            with translated():
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
        with translated():
            with contextlib.suppress(OSError):
                self._files.mkdir(folder)
            self._files.put(str(source), temp, confirm=True)
            self._files.posix_rename(temp, target)

    def names(self, folder: str) -> list[str]:
        """Plain files in a folder there; none when it does not exist."""
        with translated():
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
    client = log_in(host)
    with translated(host.name):
        files = client.open_sftp()
        channel = files.get_channel()
        if channel is not None:
            channel.settimeout(SILENCE_S)
    return Sftp(client, files)
