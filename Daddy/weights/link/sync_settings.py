"""Who and where the cluster is, for a laptop: command line, environment, remembered settings.

``SYNC_CLUSTER_USER``, ``SYNC_CLUSTER_HOST`` and ``SYNC_REMOTE_DIR`` say it; ``setup`` remembers it
(``core.remembered``). No host or user is built in. ``SYNC_SSH_CONFIG``, ``SYNC_SSH_PORT`` and
``SYNC_SSH_KEY`` say how ssh gets there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from Daddy.core.errors import ConfigError, UsageError
from Daddy.core.files import write_json
from Daddy.core.remembered import SETUP

DEFAULT_LOCAL = "~/shared_weights"

_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,63}")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:%-]{0,252}")


@dataclass(frozen=True, slots=True)
class Remote:
    """Where the shared weights are: ``user`` may be empty (ssh then decides).

    ``within`` is where the world of a confined key begins, seen from the folder (empty: there);
    None for a login that sees everything. ``opened``: over the connection that a person opened.
    """

    host: str
    user: str
    folder: str
    ssh_config: str = ""
    port: str = ""
    key: str = ""
    within: str | None = None
    opened: bool = False

    @property
    def login(self) -> str:
        """``user@host``, or the host alone."""
        return f"{self.user}@{self.host}" if self.user else self.host

    def path(self, name: str) -> str:
        """What this login calls ``name`` of the shared folder; UsageError where it may not go.

        A confined key's paths begin with ``/``: every rrsync takes that for the folder it confines
        to, and an account that is not confined after all may not write there.
        """
        if self.within is None:
            return f"{self.folder}/{name}"
        inside = f"{name}/".removeprefix(f"{self.within}/" if self.within else "")
        if self.within and inside == f"{name}/":
            raise UsageError(
                f"this laptop's key may write {self.within} alone, not {name}",
                f"SYNC_USER_ID={name.rpartition('/')[2]} {SETUP}; or push with a key of your own: "
                "SYNC_SSH_KEY",
            )
        return f"/{inside}".rstrip("/") or "/"


def remember(path: Path, remote: Remote, found: Mapping[str, str] | None = None) -> None:
    """Keep host, user and folder for the next time, and what was ``found`` out about the keys."""
    write_json(path, {
        **(found or {}),
        "format": 1,
        "host": remote.host,
        "user": remote.user,
        "folder": remote.folder,
        "ssh_config": remote.ssh_config,
        "port": remote.port,
        "key": remote.key,
    })  # fmt: skip


def find_remote(given: str, environ: Mapping[str, str], kept: Mapping[str, str]) -> Remote:
    """The cluster from ``given`` (user or user@host, may be empty), environment, kept settings.

    ConfigError names every variable that is missing; UsageError what cannot be a user or a host.
    """
    user, _, host = given.rpartition("@") if "@" in given else (given, "", "")
    host = host or environ.get("SYNC_CLUSTER_HOST") or kept.get("host", "")
    user = user or environ.get("SYNC_CLUSTER_USER") or kept.get("user", "")
    folder = environ.get("SYNC_REMOTE_DIR") or kept.get("folder", "")
    missing = [name for name, value in (
        ("SYNC_CLUSTER_HOST (the login node)", host),
        ("SYNC_REMOTE_DIR (the run's shared_weights folder there)", folder),
    ) if not value]  # fmt: skip
    if missing:
        raise ConfigError(
            f"the cluster is not known: {' and '.join(missing)} not set",
            f"export it, or answer once: {SETUP}",
        )
    return Remote(
        host=_checked("host", host, _HOST),
        user=_checked("user", user, _USER) if user else "",
        folder=check_folder(folder),
        ssh_config=environ.get("SYNC_SSH_CONFIG") or kept.get("ssh_config", ""),
        port=check_port(environ.get("SYNC_SSH_PORT") or kept.get("port", "")),
        key=environ.get("SYNC_SSH_KEY") or kept.get("key", ""),
    )


def _checked(what: str, text: str, form: re.Pattern[str]) -> str:
    if form.fullmatch(text) is None:
        raise UsageError(f"{text!r} cannot be a {what}", "write user, or user@host")
    return text


def check_port(text: str) -> str:
    """A port number as text, or empty."""
    if text and not (text.isdigit() and 0 < int(text) < 65536):  # noqa: PLR2004
        raise UsageError(f"SYNC_SSH_PORT is {text!r}", "use a number from 1 to 65535")
    return text


def check_folder(text: str) -> str:
    """A remote path that no shell between here and there reads as anything else.

    ``~/x`` becomes ``x``: rsync, sftp and a login shell all begin in the home folder.
    """
    if not re.fullmatch(r"[A-Za-z0-9_.~/+@=,-]+", text) or text.startswith("-"):
        raise UsageError(
            f"SYNC_REMOTE_DIR is {text!r}", "use letters, digits and any of _ . ~ / + @ = , - in it"
        )
    path = text.rstrip("/") or "/"
    return "." if path == "~" else path.removeprefix("~/")
