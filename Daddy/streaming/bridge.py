"""The login node's end of ``connect``: a relay for one viewer, which that viewer's ssh has started.

Over ssh's own pipes: works where forwarding is forbidden, and nobody else on the node can reach it.
With ``--told-port`` it goes to a port that ssh has opened there, whose number comes on standard
input. Ends when its ssh does. The viewer gets a token for this session alone, by the same ssh.
"""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import UsageError, run_entry
from Daddy.core.machine import host_name
from Daddy.core.names import new_token
from Daddy.core.paths import RunPaths
from Daddy.core.stopping import set_by
from Daddy.streaming.best_selector import Rules
from Daddy.streaming.login.link import Link
from Daddy.streaming.login.pipes import Pipes
from Daddy.streaming.login.programme import Programme
from Daddy.streaming.login.seats import Seat
from Daddy.streaming.relay import Relay, about_run
from Daddy.streaming.wire.auth import TOKEN_BYTES, Token, opening_line
from Daddy.streaming.wire.messages import Wish

UNTIL_ASKED = Wish(2, 15.0)
"""What the relay beside the controller sends, too; the rate is also the most there is."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m Daddy.streaming.bridge", description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True, help="the run to watch")
    parser.add_argument("--told-port", action="store_true", help="connect to a port told on stdin")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry: serve the viewer at the other end until it or its ssh has gone."""
    args = _parser().parse_args(argv)
    if not args.run_dir.is_dir():
        raise UsageError(f"there is no run in {args.run_dir}", "give the folder of a started run")
    stop = set_by(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    pipes = Pipes(stop)
    token = Token(secrets.token_bytes(TOKEN_BYTES), "connect")
    port = pipes.told_port() if args.told_port else None
    pipes.say(opening_line(token))
    made = pipes.connect()
    if port is None:
        link = Link("ssh", 0, lambda: [token], made)
    else:
        link = Link("127.0.0.1", port, lambda: [token])
    via = "stdio" if port is None else "ssh-R"
    make_bridge(RunPaths(args.run_dir), link, via, SystemClock()).run(stop)
    made.close()
    pipes.close()
    return 0


def make_bridge(paths: RunPaths, link: Link, via: str, clock: Clock) -> Relay:
    """A relay with a wish list of its own, for the viewer at the end of ``link``."""
    programme = Programme(about_run(paths, via), UNTIL_ASKED, Rules())
    holder = f"{host_name()}-{new_token()}"
    seat = Seat(paths.stream, round(clock.now() * 1000), holder, host_name())
    return Relay(paths, link, programme, seat, None, clock)


def cli() -> None:
    """Installed command."""
    sys.exit(run_entry(main))


if __name__ == "__main__":
    cli()
