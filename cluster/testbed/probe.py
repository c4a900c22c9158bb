"""Checks a test cluster: reports daemons that do not run, and an ssh server or node in silence."""

import contextlib
import json
import os
import socket
from pathlib import Path

from . import processes
from .layout import Layout, State, boot_id
from .packages import SYSTEM_PATH
from .progress import ClusterError, wait_until
from .run_child import run
from .slurm_texts import NODES, PARTITION

START_S = 40.0
_ANSWERING = ("idle", "mixed", "allocated", "completing")
"""States of a node that answers; Slurm adds a star to the state of one that does not."""
_OF_OTHERS = ("SLURM_", "SBATCH_", "SQUEUE_", "SINFO_", "SCANCEL_")
"""Prefixes of variables of another cluster, which would change the clients' output."""


def supervisor_of(state: State) -> processes.Process:
    """Return the supervisor's process."""
    return processes.Process(state.supervisor_pid, state.supervisor_start)


def is_supervised(state: State) -> bool:
    """Return True where the supervisor of this test cluster runs."""
    return state.boot == boot_id() and processes.is_alive(supervisor_of(state))


def wait_until_ready(layout: Layout, state: State) -> None:
    """Wait until ssh works and every node is usable; resume drained ones. Raises ClusterError."""
    unready = "nothing"
    logs = layout.base / "log"

    def ready() -> bool:
        nonlocal unready
        if not processes.is_alive(supervisor_of(state)):
            message = _last_line(logs / "supervisor.out")
            raise ClusterError(f"the supervisor ended: {message}", f"see {logs}")
        unready = find_unready(layout, state)
        if "drain" in unready:
            _resume(state)
        return not unready

    if not wait_until("the cluster", ready, START_S):
        raise ClusterError(f"{unready} did not answer in {START_S:.0f} s", f"see {logs}")


def _resume(state: State) -> None:
    """Resume drained nodes: slurmd drains its node when it cannot report the end of a job."""
    for number, node_state in enumerate(node_states(state), 1):
        if node_state.startswith("drain"):
            update = ("update", f"NodeName=n{number}", "State=RESUME")
            with contextlib.suppress(ClusterError):
                run([client_path(state, "scontrol"), *update], 20, client_environment(state))


def find_unready(layout: Layout, state: State) -> str:
    """Return the first part that does not answer; empty when all do."""
    missing = missing_daemons(layout, state)
    if missing:
        return missing[0]
    if not _ssh_answers(state):
        return "sshd"
    if not state.slurm:
        return ""
    states = node_states(state)
    usable = [node_state for node_state in states if node_state in _ANSWERING]
    listed = ", ".join(states) or "no states"
    return "" if len(usable) == NODES else f"slurmctld or a node ({listed})"


def _ssh_answers(state: State) -> bool:
    try:
        with socket.create_connection((state.host, state.port), timeout=2) as link:
            link.settimeout(2)
            # Read the whole greeting; else sshd logs a connection reset.
            return link.recv(256).startswith(b"SSH-2.0")
    except OSError:
        return False


def missing_daemons(layout: Layout, state: State) -> list[str]:
    """Return the names of daemons that do not run."""
    wanted = ["sshd"]
    if state.slurm:
        wanted += [
            "munged",
            "mariadbd",
            "slurmdbd",
            "slurmctld",
            *(f"slurmd-n{k}" for k in range(1, NODES + 1)),
        ]
    try:
        rows = json.loads(layout.daemons_file.read_text())
    except (OSError, ValueError):
        return wanted
    started = {name: processes.Process(*row) for name, row in rows.items()}
    return [name for name in wanted if name not in started or not processes.is_alive(started[name])]


def node_states(state: State) -> list[str]:
    """Return every node's state as sinfo prints it; empty where slurmctld does not answer."""
    command = [client_path(state, "sinfo"), "-h", "-N", "-p", PARTITION, "-o", "%T"]
    try:
        return run(command, 20, client_environment(state)).split()
    except ClusterError:
        return []


def client_path(state: State, tool: str) -> str:
    """Return the path of a client program: its wrapper where packages were unpacked."""
    wrapper = Path(state.path or "/nonexistent") / tool
    return str(wrapper) if wrapper.exists() else state.tools[tool]


def client_environment(state: State) -> dict[str, str]:
    """Return the environment of a shell that sourced env.sh."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(_OF_OTHERS)}
    path = ":".join(filter(None, (state.path, env.get("PATH", SYSTEM_PATH))))
    conf = {"SLURM_CONF": f"{state.root}/etc/slurm.conf"} if state.slurm else {}
    return {**env, **conf, "PATH": path}


def _last_line(path: Path) -> str:
    try:
        return (path.read_text(errors="replace").strip().splitlines() or ["no message"])[-1]
    except OSError:
        return "no message"
