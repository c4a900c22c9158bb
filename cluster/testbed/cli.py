"""The four commands of the test cluster and what they print.

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
from .plan_addresses import Wishes
from .progress import ClusterError, say

CHECKOUT = Path(__file__).resolve().parents[2]
UP, DEGRADED, DOWN = 0, 20, 21


def main(arguments: Sequence[str]) -> int:
    """Run one command; one clear message and an exit code for everything a person can cause."""
    options = parser().parse_args(arguments)
    try:
        return int(options.work(options))
    except ClusterError as error:
        print(f"error: {error.what}\n  what to do: {error.advice}", file=sys.stderr)
        return error.code
    except PermissionError as error:
        print(f"error: {error}\n  what to do: choose a --dir that you may write", file=sys.stderr)
        return 9
    except KeyboardInterrupt:
        return 130


def parser() -> argparse.ArgumentParser:
    """What can be asked."""
    whole = argparse.ArgumentParser(prog="cluster/testbed", description=__doc__)
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="start a Slurm cluster and its login node on this host")
    up.set_defaults(work=do_up)
    up.add_argument("--login-only", action="store_true", help="the login node without Slurm")
    up.add_argument(
        "--no-namespace",
        action="store_true",
        help="sshd on 127.0.0.1 although root could do better",
    )
    up.add_argument("--max-jobs", type=int, default=4, help="running jobs per user (4)")
    down = commands.add_parser("down", help="end everything; logs, keys and the folder stay")
    down.set_defaults(work=do_down)
    down.add_argument("--purge", action="store_true", help="remove the folder too")
    status = commands.add_parser("status", help="what runs and how to reach it")
    status.set_defaults(work=do_status)
    install = commands.add_parser("install", help="only fetch the programs that are missing")
    install.set_defaults(work=do_install)
    install.add_argument("--login-only", action="store_true", help="ssh and rsync, no Slurm")
    for one in (up, down, status):
        one.add_argument(
            "--dir", type=Path, default=CHECKOUT / "runs" / "testbed", help="its folder"
        )
    for one in (up, status):
        one.add_argument("--json", action="store_true", help="print the result as JSON")
    for one in (up, install):
        one.add_argument(
            "--packages",
            type=Path,
            default=Path(os.environ.get("DADDY_TESTBED_PACKAGES", CHECKOUT / "runs" / "packages")),
            help="where missing programs are unpacked",
        )
    _add_shape(commands)
    return whole


def _add_shape(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    shape = commands.add_parser("shape", help="a slow or broken link, as ssh's ProxyCommand")
    shape.set_defaults(work=do_shape)
    shape.add_argument("--delay-ms", type=float, default=0.0, help="one way")
    shape.add_argument("--kilobytes", type=float, default=0.0, help="per second; 0: no limit")
    shape.add_argument("--stall-file", type=Path, help="nothing gets through while this exists")
    shape.add_argument("--cut-file", type=Path, help="the link breaks when this appears")
    shape.add_argument("host")
    shape.add_argument("port", type=int)


def do_up(options: argparse.Namespace) -> int:
    """``up``."""
    base = folder(options.dir)
    state = launch.up(
        Wishes(
            base=base,
            packages=folder(options.packages),
            slurm=not options.login_only,
            isolated=not options.no_namespace,
            max_jobs=options.max_jobs,
        )
    )
    show(describe(base, state, []), as_json=options.json)
    return UP


def do_down(options: argparse.Namespace) -> int:
    """``down``."""
    base = folder(options.dir)
    was = launch.down(base, purge=options.purge)
    say("down" if was else "was not running")
    return 0


def do_status(options: argparse.Namespace) -> int:
    """``status``."""
    base = folder(options.dir)
    state = load_state(base)
    if state is None:
        show({"state": "down", "dir": str(base)}, as_json=options.json)
        return DOWN
    problem = "supervisor"
    if probe.supervised(state):
        problem = probe.not_ready(open_layout(base), state)
    found = describe(base, state, probe.node_states(state) if state.slurm else [])
    found["state"] = "degraded" if problem else "up"
    if problem:
        found["does_not_answer"] = problem
    show(found, as_json=options.json)
    return DEGRADED if problem else UP


def do_install(options: argparse.Namespace) -> int:
    """``install``: prints the folder that belongs in PATH, empty where all is the system's."""
    programs = packages.ensure(folder(options.packages), slurm=not options.login_only)
    print(programs.bin)
    return 0


def do_shape(options: argparse.Namespace) -> int:
    """``shape``."""
    link = shaper.Link(
        delay_s=options.delay_ms / 1000,
        bytes_per_s=options.kilobytes * 1000,
        stall_file=options.stall_file,
        cut_file=options.cut_file,
    )
    return shaper.shape(options.host, options.port, link)


def describe(base: Path, state: State, nodes: list[str]) -> dict[str, Any]:
    """Everything a user of the test cluster needs."""
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


def show(found: dict[str, Any], *, as_json: bool) -> None:
    """JSON for programs, a few lines for people."""
    if as_json:
        print(json.dumps(found, indent=2))
        return
    print(f"testbed {found['state']}: {found['dir']}")
    if "host" not in found:
        return
    for name, value in lines(found):
        print(f"  {name:<12} {value}")


def lines(found: dict[str, Any]) -> list[tuple[str, str]]:
    """Label and text of every line for people."""
    alone = found["mode"] == "namespace"
    place = "a machine of its own" if alone else f"on this host's loopback ({found['mode_reason']})"
    rows = [("login node", f"{found['user']}@{found['host']} port {found['port']}, {place}")]
    if found.get("does_not_answer"):
        rows.append(("silent", found["does_not_answer"]))
    if found["slurm"]:
        rows.append(
            ("slurm", f"{found['slurm_version']}, {found['max_jobs']} running jobs per user")
        )
        if found["nodes"]:
            rows.append(("nodes", " ".join(found["nodes"])))
        rows.append(("use it here", f"source {shlex.quote(found['env_file'])}"))
    config, port = shlex.quote(found["ssh_config"]), found["remote_port"]
    rows.append(("log in", f"ssh -F {config} login"))
    rows.append(("tunnel", f"ssh -F {config} -R {port}:localhost:9999 login"))
    if not alone:
        rows.append(("", "9999 is the viewer's own port here, so the remote end listens on 9998"))
    if found["friend"]:
        rows.append(("second user", f"ssh -F {config} {found['friend']}"))
    return rows


def folder(path: Path) -> Path:
    """Absolute, without links on the way."""
    return path.expanduser().resolve()
