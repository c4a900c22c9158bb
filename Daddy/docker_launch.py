"""Entry: two nodes and the coordinator of sweeps in one private network, without Docker or root.

``python -m Daddy.docker_launch start`` starts them, and they stay until ``stop`` or for 12 hours.
``run -- COMMAND`` runs a command on the master, with ``--nodes 2`` on the worker too.
"""

import argparse
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from Daddy.core.arguments import ArgumentParser, option_argv, whole_number
from Daddy.core.atomic_files import read_bounded, sha256_hex, write_atomic
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ConfigError, ExitCode, NetworkError, SandboxError, UsageError
from Daddy.core.humanize import format_age, format_span
from Daddy.core.loopback import listen_on_loopback
from Daddy.core.run_subprocess import Child, run_command, run_interactive, spawn_child
from Daddy.sandbox.backend_facts import read_backend_facts
from Daddy.sandbox.choose_backend import install_hint
from Daddy.search.node_plan import API_PORTS, NODES, RANKS, find_node
from Daddy.search.node_supervisor import add_node_flags
from Daddy.search.nodes import (
    argv_in_node,
    node_paths,
    open_shell,
    print_logs,
    read_nodes,
    run_on_nodes,
    stop_nodes,
)
from Daddy.search.sweep_request import WORDS_HELP, add_sweep_flags, parse_words
from Daddy.workloads import WORKLOADS

_HEALTHY_S = 60.0
_FILE_BYTES = 1 << 20
_PROGRESS_S = 2.0
_POLL_S = 0.05
_CHECK_HEALTH = (
    "import http.client as c; a = c.HTTPConnection('127.0.0.1', {port}, timeout=5); "
    "a.request('GET', '/health'); raise SystemExit(a.getresponse().status != 200)"
)
_NEXT = """next:
  ./devops/docker_launch.py status
  ./devops/docker_launch.py sweep run=test trainer.total_timesteps=50 --max-rollouts 2
  ./devops/docker_launch.py run --nodes 2 -- hostname
  ./devops/docker_launch.py shell | logs | stop"""


def make_parser() -> ArgumentParser:
    """Return the parser of the command line."""
    parser = ArgumentParser(prog="docker_launch", description="Run two nodes on this machine.")
    parser.add_argument("--run-dir", type=Path, default=Path("runs"), help="runs folder (runs)")
    commands = parser.add_subparsers(dest="command", required=True)
    add_node_flags(commands.add_parser("start", help="start the nodes, and wait until they work"))
    sweep = commands.add_parser("sweep", help="run a sweep, on one node or both", epilog=WORDS_HELP)
    add_sweep_flags(sweep)
    commands.add_parser("status", help="print the state of each node")
    run = commands.add_parser("run", help="run a command on the master, or on both nodes")
    run.add_argument("--nodes", type=whole_number(1, len(RANKS)), default=1, help="nodes (1)")
    run.add_argument("argv", nargs=argparse.REMAINDER, help="the command, after --")
    shell = commands.add_parser("shell", help="open a shell in a node")
    shell.add_argument("node", nargs="?", default="master", help="node (master)")
    shell.add_argument("-c", dest="text", metavar="COMMAND", help="run this, and open no shell")
    logs = commands.add_parser("logs", help="print the logs")
    logs.add_argument("node", nargs="?", help="node (all)")
    commands.add_parser("stop", help="end the nodes and all that runs in them")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Exit codes: 2 usage, 3 not running, 8 ports, 12 not confined; ``status`` 20, 21."""
    args = make_parser().parse_args(argv)
    args.run_dir = args.run_dir.resolve()
    return _COMMANDS[args.command](args, SystemClock())


def start_nodes(args: argparse.Namespace, clock: Clock) -> int:
    """Start the nodes if they do not run, and return once they answer.

    ConfigError for settings, NetworkError for ports, SandboxError if nothing confines.
    """
    if state := read_nodes(args.run_dir):
        print(f"the nodes run already (pid {state.supervisor.pid}, network {state.network})")
        return ExitCode.DONE
    _require_programs()
    if args.network == "host":
        for port in API_PORTS:
            for listener in listen_on_loopback(port, 1, "--network none", "another coordinator?"):
                listener.close()
    supervisor = _spawn_supervisor(args)
    try:
        code = _await_health(args.run_dir, supervisor, clock)
    except BaseException:
        supervisor.signal(signal.SIGTERM)
        raise
    if code == ExitCode.DONE:
        _status(args, clock)
        print(_NEXT)
    return code


def _require_programs() -> None:
    """Print the programs by which nodes are made. SandboxError if one is missing."""
    facts = read_backend_facts()
    if not facts.works("bubblewrap"):
        why, line = install_hint(facts)
        raise SandboxError(f"nothing on this machine confines nodes: {why}", line)
    for program in ("nsenter", "setpriv", "setsid", "script"):
        if not shutil.which(program):
            raise SandboxError(f"{program} is not installed", "sudo apt-get install util-linux")
    print(f"found {facts.bwrap}, nsenter, Python {sys.version.partition(' ')[0]}")


def _spawn_supervisor(args: argparse.Namespace) -> Child:
    paths = node_paths(args.run_dir)
    paths.root.mkdir(parents=True, exist_ok=True)
    log = paths.supervisor_log
    log.unlink(missing_ok=True)
    argv = [sys.executable, "-m", "Daddy.search.node_supervisor", "--run-dir", str(args.run_dir)]
    argv += option_argv(args, add_node_flags)
    return spawn_child(argv, stdout=log, stderr=log, env=os.environ, cwd=Path.cwd())


def _await_health(runs_folder: Path, supervisor: Child, clock: Clock) -> int:
    """Wait until each node reaches the coordinator; return the supervisor's code if it has ended.

    NetworkError if the coordinator does not answer in time.
    """
    started = printed = clock.monotonic()
    log = node_paths(runs_folder).supervisor_log
    while not _is_healthy(runs_folder, clock):
        if supervisor.wait(_POLL_S):
            print(log.read_text().strip(), file=sys.stderr)
            return supervisor.exit_code or ExitCode.NOT_CONFINED
        now = clock.monotonic()
        if now - printed > _PROGRESS_S:
            printed = now
            print(f"waiting for the coordinator: {format_span(now - started)}", flush=True)
        if now - started > _HEALTHY_S:
            raise NetworkError("the coordinator does not answer", f"read {log.parent / 'api.log'}")
    return ExitCode.DONE


def _is_healthy(runs_folder: Path, clock: Clock) -> bool:
    """Ask the coordinator from both ranks, each at another of its ports."""
    state = read_nodes(runs_folder)
    if state is None or not all(map(state.process, NODES)):
        return False
    with suppress(ConfigError, SandboxError):  # they ended just now: the supervisor's log says why
        for node, port in zip(RANKS, API_PORTS, strict=True):
            check = [sys.executable, "-c", _CHECK_HEALTH.format(port=port)]
            argv = argv_in_node(runs_folder, node, check, clock)
            if run_command(argv, _HEALTHY_S).returncode:
                return False
        return True
    return False


def _sweep(args: argparse.Namespace, clock: Clock) -> int:
    """Run a sweep on the master, or a rank of it on each node; start the nodes if none run.

    With --backend slurm it runs here, outside of nodes, and its trials as jobs.
    """
    given = parse_words(args.words, WORKLOADS)
    argv = [sys.executable, "-m", "Daddy.sweep_node", "--run-dir", str(args.run_dir)]
    if args.backend == "slurm":
        return run_interactive([*argv, *args.words, *option_argv(args, add_sweep_flags)])
    if args.nodes > len(RANKS):
        raise UsageError(
            f"--nodes {args.nodes}: this machine has {len(RANKS)}", "add --backend slurm"
        )
    if args.wandb == "online":
        raise UsageError(
            "--wandb online: nodes have no key and reach no network",
            "type --wandb offline, then wandb sync; or run python -m Daddy.sweep_node",
        )
    args.words += [] if "device" in given else ["+hardware=macbook"]  # nodes see no GPU
    if read_nodes(args.run_dir) is None:
        print("the nodes do not run: starting them", flush=True)
        options = make_parser().parse_args(["start"])
        options.run_dir = args.run_dir
        if code := start_nodes(options, clock):
            return code
    for name in ("space", "config"):
        if path := getattr(args, name):
            setattr(args, name, _show_in_nodes(Path(path), args.run_dir))
    argv += [*args.words, *option_argv(args, add_sweep_flags)]
    return run_on_nodes(args.run_dir, argv, args.nodes, clock)


def _show_in_nodes(path: Path, runs_folder: Path) -> Path:
    """Copy a file into the folder of the nodes, which see no other. ConfigError without it."""
    try:
        content = read_bounded(path, _FILE_BYTES)
    except FileNotFoundError as error:
        raise ConfigError(f"there is no file at {path}", "name an existing file") from error
    shown = node_paths(runs_folder).root / f"{sha256_hex(content)[:12]}-{path.name}"
    write_atomic(shown, content)
    return shown


def _status(args: argparse.Namespace, clock: Clock) -> int:
    """Print the state; return 20 if a node is missing, 21 if nothing runs."""
    state, now = read_nodes(args.run_dir), clock.now()
    processes = [state.process(node) if state else None for node in NODES]
    for node, process in zip(NODES, processes, strict=True):
        age = f"running {format_age(now - process.created)}" if process else "not running"
        rank = "api" if node.rank is None else f"rank {node.rank}"
        print(f"{node.name:<20}{age:<18}{rank:<8}{node.address}")
    if state is None:
        return ExitCode.DOWN
    print(f"network {state.network}; they end in {format_span(state.ends - now)}")
    print(f"credentials, read-only: {' '.join(state.credentials) or 'none'}")
    return ExitCode.DONE if all(processes) else ExitCode.DEGRADED


def _run(args: argparse.Namespace, clock: Clock) -> int:
    argv = args.argv[1:] if args.argv[:1] == ["--"] else args.argv
    if not argv:
        raise UsageError("run needs a command", "type it after --: run --nodes 2 -- hostname")
    return run_on_nodes(args.run_dir, argv, args.nodes, clock)


def _shell(args: argparse.Namespace, clock: Clock) -> int:
    return open_shell(args.run_dir, find_node(args.node), args.text, clock)


def _logs(args: argparse.Namespace, _clock: Clock) -> int:
    print_logs(args.run_dir, [find_node(args.node)] if args.node else NODES)
    return ExitCode.DONE


def _stop(args: argparse.Namespace, clock: Clock) -> int:
    stopped = stop_nodes(args.run_dir, clock)
    print("stopped" if stopped else "the nodes do not run")
    return ExitCode.DONE


_COMMANDS: dict[str, Callable[[argparse.Namespace, Clock], int]] = {
    "start": start_nodes,
    "status": _status,
    "sweep": _sweep,
    "run": _run,
    "shell": _shell,
    "logs": _logs,
    "stop": _stop,
}


if __name__ == "__main__":
    raise SystemExit(run_entry(main, private=True))
