"""Entry: ``python -m Daddy.sandbox probe`` tells what confines commands on this machine."""

import argparse
import asyncio
from collections.abc import Sequence
from typing import get_args

from rich.console import Console
from rich.text import Text

from Daddy.core.arguments import ArgumentParser
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import SandboxError
from Daddy.sandbox.backend_facts import open_backend, read_backend_facts
from Daddy.sandbox.choose_backend import Requested, choose_backend
from Daddy.sandbox.probe import ATTEMPTS, Check, probe_backend
from Daddy.sandbox.sandbox_interfaces import Backend, SandboxSpec

_WIDTH = max(len(attempt.tried) for attempt in ATTEMPTS) + 2


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = ArgumentParser(prog="python -m Daddy.sandbox", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    text = "try each limit in a sandbox, and show which held; exit code 12 if one did not"
    probe = commands.add_parser("probe", help=text, description=f"Probe: {text}.")
    probe.add_argument(
        "--backend", choices=get_args(Requested), default="auto", help="sandbox backend (auto)"
    )
    probe.add_argument("--image", default="host", help="root file system of the sandbox (host)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Show the table. Exit codes: 2 usage, 3 absent engine or key, 12 not confined, 14 extra."""
    args = make_parser().parse_args(argv)
    choice = choose_backend(args.backend, read_backend_facts())
    backend = open_backend(choice.name)
    console = Console(highlight=False, soft_wrap=True)
    level = backend.isolation()
    console.print(f"backend    {choice.name}: {choice.reason}")
    console.print(f"isolation  {', '.join((level.level, *level.missing))}\n")
    console.print(f"{'':7}{'tried':{_WIDTH}}enforced by: seen")
    checks = probe_and_show(backend, args.image, console)
    report(backend.name, checks, console)
    return 0


def probe_and_show(backend: Backend, image: str, console: Console) -> list[Check]:
    """Try all limits; print each as it was tried."""

    def show(check: Check) -> None:
        style = "green" if check.held else "bold red"
        line = Text("held   " if check.held else "FAILED ", style)
        console.print(
            line + Text(f"{check.tried:{_WIDTH}}{check.how}", "" if check.held else style)
        )

    return asyncio.run(probe_backend(backend, SandboxSpec(image=image), show))


def report(name: str, checks: Sequence[Check], console: Console) -> None:
    """Print the sum. Raises SandboxError if a limit did not hold."""
    failed = [check.tried for check in checks if not check.held]
    if failed:
        raise SandboxError(
            f"{name} does not confine here: {len(failed)} of {len(checks)} attempts got through "
            f"({'; '.join(failed)})",
            "run trusted code only, or try another: python -m Daddy.sandbox probe --backend NAME",
        )
    console.print(f"\n{name} confines here: {len(checks)} of {len(checks)} attempts held")


if __name__ == "__main__":
    raise SystemExit(run_entry(main))
