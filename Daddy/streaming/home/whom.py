"""Whom ``connect`` is to reach: as typed, as set, as ``sync_weights.sh setup`` keeps it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from Daddy.core.errors import UsageError
from Daddy.core.saved_cluster import (
    kept_login,
    master_socket,
    opened_socket,
    remembered,
    settings_path,
)
from Daddy.core.vocabulary import TUNNEL_PORT
from Daddy.streaming.home.orders import Target, is_login
from Daddy.streaming.home.ways import Way
from Daddy.streaming.login.script import ATTACH, HOME_ATTACH

_WEIGHTS = "/shared_weights"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What ``connect`` takes besides the viewer's own flags."""
    parser.add_argument("login", nargs="?", default="", help="user@login (as setup keeps it)")
    parser.add_argument("--run-dir", default="", help="the run there (the one begun last)")
    parser.add_argument("--by", choices=[one.value for one in Way], help="go this way alone")
    parser.add_argument(
        "--remote-port", default=str(TUNNEL_PORT), help=f"port there ({TUNNEL_PORT})"
    )
    parser.set_defaults(port=0)


def find_target(
    args: argparse.Namespace, environ: Mapping[str, str], home: Path, *, asks: bool
) -> Target:
    """The login, and how ssh gets there; UsageError says what cannot be one."""
    kept = remembered(settings_path(environ, home))
    user, host = environ.get("SYNC_CLUSTER_USER"), environ.get("SYNC_CLUSTER_HOST")
    login = args.login or (f"{user}@{host}" if user and host else kept_login(kept))
    if not is_login(login):
        raise UsageError(f"{login!r} is nobody to connect to", "type: connect user@login-node")
    facts = kept if login == kept_login(kept) else {}
    own_key = environ.get("SYNC_SSH_KEY") or facts.get("key", "")
    port = _port(args.remote_port)
    words = _whom(environ, facts)
    return Target(
        login=login,
        scripts=_scripts(args.run_dir, environ.get("SYNC_REMOTE_DIR") or facts.get("folder", "")),
        whom=(*words, *(["-i", own_key, "-o", "IdentitiesOnly=yes"] if own_key else [])),
        opened=_opened(facts),
        tunnel_key="" if own_key or port != TUNNEL_PORT else facts.get("tunnel_key", ""),
        port=port,
        asks=asks,
    )


def _whom(environ: Mapping[str, str], facts: Mapping[str, str]) -> list[str]:
    config = environ.get("SYNC_SSH_CONFIG") or facts.get("ssh_config", "")
    port = environ.get("SYNC_SSH_PORT") or facts.get("port", "")
    words = ["-F", str(Path(config).expanduser())] if config else []
    return [*words, "-p", port] if port else words


def _opened(facts: Mapping[str, str]) -> str:
    """The connection of ``sync_weights.sh login``, where that is how one gets there."""
    if not facts.get("opened"):
        return ""
    names = [facts.get(name, "") for name in ("port", "key", "ssh_config")]
    return str(opened_socket(master_socket(kept_login(facts), *names)))


def _scripts(run_dir: str, weights: str) -> tuple[str, ...]:
    """Where the relay's script may lie over there: in the run that was named, or in the one whose
    weights are pulled, else where the relay that began last has left it.
    """
    run = run_dir or (weights.removesuffix(_WEIGHTS) if weights.endswith(_WEIGHTS) else "")
    if run.startswith("-") or not run.isprintable():
        raise UsageError(f"--run-dir {run!r} is no folder", "give the run's folder there")
    inside = f"{run.removeprefix('~/').rstrip('/')}/stream/{ATTACH}"
    return (inside,) if run_dir else (inside, HOME_ATTACH) if run else (HOME_ATTACH,)


def _port(text: str) -> int:
    """A port of the login node's loopback. UsageError for any other address, with the reason."""
    if text.isdigit() and 0 < int(text) < 65536:  # noqa: PLR2004 - ports are 16 bits
        return int(text)
    if ":" in text:
        raise UsageError(
            f"--remote-port {text} asks for another address than the login node's own loopback",
            "give a number alone: other addresses (GatewayPorts) would open your stream to the "
            "network, sshd ignores the wish without a word, and no job needs it",
        )
    raise UsageError(f"--remote-port {text} is no port", f"use 1 to 65535, such as {TUNNEL_PORT}")
