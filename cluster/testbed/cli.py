"""Implements the commands of the test cluster.

Exit codes: 0 done · 2 usage · 4 the cluster did not start or a program is missing · 8 network ·
9 files. ``status``: 0 up · 20 a part does not answer · 21 down.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import launch, packages, probe, shaper
from .layout import State, load_state, open_layout
from .plan_addresses import UpOptions
from .progress import ClusterError, print_progress

CHECKOUT = Path(__file__).resolve().parents[2]
UP, DEGRADED, DOWN = 0, 20, 21


def main(arguments: Sequence[str]) -> int:
    """Run a command; print errors with their remedy and return the exit code."""
    options = make_parser().parse_args(arguments)
    try:
        return int(options.work(options))
    except ClusterError as error:
        print(f"error: {error.message}\n  what to do: {error.remedy}", file=sys.stderr)
        return error.code
    except PermissionError as error:
        print(f"error: {error}\n  what to do: choose a --dir that you may write", file=sys.stderr)
        return 9
    except KeyboardInterrupt:
        return 130


def make_parser() -> argparse.ArgumentParser:
    """Build the parser of all commands."""
    parser = argparse.ArgumentParser(prog="cluster/testbed", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="start a Slurm cluster and its login node on this host")
    up.set_defaults(work=do_up)
    up.add_argument("--login-only", action="store_true", help="only the login node, no Slurm")
    up.add_argument(
        "--no-namespace",
        action="store_true",
        help="no network namespaces: sshd on 127.0.0.1, also as root",
    )
    up.add_argument("--max-jobs", type=int, default=4, help="running jobs per user (default 4)")
    down = commands.add_parser("down", help="end the test cluster; logs, keys and the folder stay")
    down.set_defaults(work=do_down)
    down.add_argument("--purge", action="store_true", help="also remove the folder")
    status = commands.add_parser("status", help="state, addresses and files of the test cluster")
    status.set_defaults(work=do_status)
    install = commands.add_parser("install", help="only download missing programs")
    install.set_defaults(work=do_install)
    install.add_argument("--login-only", action="store_true", help="only ssh and rsync, no Slurm")
    base = CHECKOUT / "runs" / "testbed"
    for command in (up, down, status):
        command.add_argument("--dir", type=Path, default=base, help="folder (runs/testbed)")
    for command in (up, status):
        command.add_argument("--json", action="store_true", help="print the result as JSON")
    for command in (up, install):
        command.add_argument(
            "--packages",
            type=Path,
            default=Path(os.environ.get("DADDY_TESTBED_PACKAGES", CHECKOUT / "runs" / "packages")),
            help="folder of unpacked programs (runs/packages)",
        )
    _add_shape(commands)
    return parser


def _add_shape(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    shape = commands.add_parser("shape", help="ProxyCommand of ssh: a slow or broken link")
    shape.set_defaults(work=do_shape)
    shape.add_argument(
        "--delay-ms", type=float, default=0.0, help="delay of each direction (default 0)"
    )
    shape.add_argument(
        "--kilobytes", type=float, default=0.0, help="KB per second (default 0: no limit)"
    )
    shape.add_argument("--stall-file", type=Path, help="path: no data pass while it exists")
    shape.add_argument("--cut-file", type=Path, help="path: the link is cut when it appears")
    shape.add_argument("host")
    shape.add_argument("port", type=int)


def do_up(options: argparse.Namespace) -> int:
    """Start the test cluster; print its state."""
    base = absolute(options.dir)
    state = launch.up(
        UpOptions(
            base=base,
            packages=absolute(options.packages),
            slurm=not options.login_only,
            isolated=not options.no_namespace,
            max_jobs=options.max_jobs,
        )
    )
    print_status(describe(base, state, []), as_json=options.json)
    return UP


def do_down(options: argparse.Namespace) -> int:
    """End the test cluster."""
    was_running = launch.down(absolute(options.dir), purge=options.purge)
    print_progress("down" if was_running else "was not running")
    return 0


def do_status(options: argparse.Namespace) -> int:
    """Print the state of the test cluster; return 0, 20 or 21."""
    base = absolute(options.dir)
    state = load_state(base)
    if state is None:
        print_status({"state": "down", "dir": str(base)}, as_json=options.json)
        return DOWN
    problem = "supervisor"
    if probe.is_supervised(state):
        problem = probe.find_unready(open_layout(base), state)
    record = describe(base, state, probe.node_states(state) if state.slurm else [])
    record["state"] = "degraded" if problem else "up"
    if problem:
        record["does_not_answer"] = problem
    print_status(record, as_json=options.json)
    return DEGRADED if problem else UP


def do_install(options: argparse.Namespace) -> int:
    """Fetch missing programs; print their folder, empty where all are the system's."""
    programs = packages.find_or_fetch(absolute(options.packages), slurm=not options.login_only)
    print(programs.bin)
    return 0


def do_shape(options: argparse.Namespace) -> int:
    """Connect standard input and output to a server over a simulated link."""
    link = shaper.Link(
        delay_s=options.delay_ms / 1000,
        bytes_per_s=options.kilobytes * 1000,
        stall_file=options.stall_file,
        cut_file=options.cut_file,
    )
    return shaper.shape(options.host, options.port, link)


def describe(base: Path, state: State, nodes: list[str]) -> dict[str, Any]:
    """Return the addresses, files and settings of a test cluster as a record."""
    layout = open_layout(base)
    return {
        "state": "up",
        "dir": str(base),
        "mode": state.mode,
        "mode_reason": state.reason,
        "slurm": state.slurm,
        "slurm_version": state.slurm_version,
        "slurm_conf": str(layout.slurm_conf) if state.slurm else "",
        "path": state.path,
        "nodes": nodes,
        "max_jobs": state.max_jobs,
        "host": state.host,
        "port": state.port,
        "user": state.user,
        "friend": state.friend,
        "identity_file": str(base / "ssh" / f"key_{state.user}"),
        "known_hosts": str(base / "ssh" / "known_hosts"),
        "ssh_config": str(layout.ssh_config),
        "ssh_alias": "login",
        "slow_alias": "slow",
        "remote_port": state.remote_port,
        "env_file": str(layout.env_file),
        "logs": str(base / "log"),
        "supervisor_pid": state.supervisor_pid,
    }


def print_status(record: dict[str, Any], *, as_json: bool) -> None:
    """Print a record as JSON, or as a few lines of text."""
    if as_json:
        print(json.dumps(record, indent=2))
        return
    print(f"testbed {record['state']}: {record['dir']}")
    if "host" not in record:
        return
    for name, value in status_rows(record):
        print(f"  {name:<12} {value}")


def status_rows(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (label, text) of every line of text."""
    alone = record["mode"] == "namespace"
    place = (
        "a machine of its own" if alone else f"on this host's loopback ({record['mode_reason']})"
    )
    rows = [("login node", f"{record['user']}@{record['host']} port {record['port']}, {place}")]
    if record.get("does_not_answer"):
        rows.append(("no answer", record["does_not_answer"]))
    if record["slurm"]:
        rows.append(
            ("slurm", f"{record['slurm_version']}, {record['max_jobs']} running jobs per user")
        )
        if record["nodes"]:
            rows.append(("nodes", " ".join(record["nodes"])))
        rows.append(("use it here", f"source {shlex.quote(record['env_file'])}"))
    config, port = shlex.quote(record["ssh_config"]), record["remote_port"]
    rows.append(("log in", f"ssh -F {config} login"))
    rows.append(("tunnel", f"ssh -F {config} -R {port}:localhost:9999 login"))
    if not alone:
        rows.append(("", "9999 is the viewer's own port here, so the remote end listens on 9998"))
    if record["friend"]:
        rows.append(("second user", f"ssh -F {config} {record['friend']}"))
    return rows


def absolute(path: Path) -> Path:
    """Return the absolute path with all symbolic links resolved."""
    return path.expanduser().resolve()
