"""Starts a test cluster, waits until it answers, and ends it."""

import fcntl
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from . import accounting, namespaces, netlink, packages, probe, processes, supervisor
from .layout import (
    STATE_FILE,
    STATE_FILE_BEFORE,
    Layout,
    State,
    boot_id,
    choose_root,
    drop_root,
    load_state,
    open_layout,
    save_state,
)
from .plan_addresses import RUN_SSHD, UpOptions, plan_state
from .progress import ClusterError, print_progress, wait_until
from .slurm_texts import NODES
from .write_files import make_folders, network_of, slurm_plan, write_all

_VOLATILE_FOLDERS = ("run", "state", "spool")
_VOLATILE_FILES = (STATE_FILE, STATE_FILE_BEFORE, "env.sh", "ssh_config")
STOP_S = 20.0


@contextmanager
def folder_lock(base: Path) -> Iterator[None]:
    """Hold the folder's lock: one ``up`` or ``down`` runs at a time."""
    base.mkdir(parents=True, exist_ok=True)
    with (base / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def up(options: UpOptions) -> State:
    """Start the parts that do not run; return the state once all answer. Raises ClusterError."""
    with folder_lock(options.base):
        state = load_state(options.base)
        if state and probe.is_supervised(state) and state.slurm >= options.slurm:
            return _repair(options.base, state)
        _clear(options.base, state)
        return _start(options)


def down(base: Path, *, purge: bool = False) -> bool:
    """End all processes of this test cluster; return False where none ran."""
    if not base.is_dir():
        return False
    with folder_lock(base):
        was_running = _clear(base, load_state(base))
        if purge:
            shutil.rmtree(base)
    return was_running


def _repair(base: Path, state: State) -> State:
    """Start the daemons of a running test cluster that have ended."""
    layout = open_layout(base)
    missing = probe.missing_daemons(layout, state)
    if missing:
        print_progress(f"starting again: {', '.join(missing)}")
        processes.send(probe.supervisor_of(state), signal.SIGHUP)
    probe.wait_until_ready(layout, state)
    return state


def _start(options: UpOptions) -> State:
    programs = packages.find_or_fetch(options.packages, slurm=options.slurm)
    started = time.monotonic()
    layout = Layout(options.base, choose_root(options.base))
    make_folders(options.base)
    state = plan_state(options, layout, programs)
    save_state(options.base, state)
    try:
        write_all(layout, state, programs)
        state = _launch(layout, state, programs)
        probe.wait_until_ready(layout, state)
    except BaseException:
        print_progress("start failed; ending what was started")
        _clear(options.base, load_state(options.base))
        raise
    print_progress(f"up after {time.monotonic() - started:.1f} s")
    return state


def _launch(layout: Layout, state: State, programs: packages.Programs) -> State:
    """Start the supervisor and save its process id."""
    environment = {
        "PATH": ":".join(filter(None, (programs.bin, packages.SYSTEM_PATH))),
        "HOME": str(Path.home()),
        "LANG": "C.UTF-8",
        processes.MARK: state.root,
        **programs.environment(),
        **({"SLURM_CONF": str(layout.slurm_conf)} if state.slurm else {}),
    }
    daemons = _daemons(layout, state, programs)
    logs = layout.base / "log"

    def work() -> None:
        machines = _make_machines(layout, state)
        supervisor.Supervisor(daemons, environment, layout.daemons_file, logs, machines).serve()

    owner = supervisor.detach(work, logs / "supervisor.out")
    state = replace(state, supervisor_pid=owner.pid, supervisor_start=owner.start)
    save_state(layout.base, state)
    return state


def _make_machines(layout: Layout, state: State) -> dict[str, namespaces.Machine]:
    """Create the nodes' namespaces where that is possible; runs in the supervisor's process."""
    network = network_of(state)
    if state.made_run_sshd:
        RUN_SSHD.mkdir(mode=0o755, exist_ok=True)
    if not state.private_users:
        return {}
    namespaces.mount_private_users(layout.user_files)
    if network:
        return namespaces.build_machines(network, NODES if state.slurm else 0)
    return namespaces.build_without_network()


def _daemons(layout: Layout, state: State, programs: packages.Programs) -> list[supervisor.Daemon]:
    """Return all daemons in the order of starting."""
    tool, munge = programs.tools, layout.munge
    sshd = (tool["sshd"], "-D", "-e", "-f", str(layout.etc / "sshd_config"))
    login = supervisor.Daemon("sshd", sshd, machine=namespaces.LOGIN)
    if not state.slurm:
        return [login]
    plan = slurm_plan(state, programs.slurm_plugins)
    munged = (
        tool["munged"], "-F", "--num-threads=2", f"--key-file={munge / 'key'}",
        f"--socket={layout.munge_socket}", f"--pid-file={layout.run / 'munged.pid'}",
        f"--seed-file={munge / 'seed'}", f"--log-file={munge / 'log'}",
    )  # fmt: skip
    return [
        supervisor.Daemon("munged", munged, socket=str(layout.munge_socket)),
        *accounting.make_daemons(layout, plan, programs),
        supervisor.Daemon(
            "slurmctld",
            (tool["slurmctld"], "-D"),
            machine=namespaces.LOGIN,
            before=tuple(accounting.accounts_command(layout, plan, state, programs)),
        ),
        *(
            supervisor.Daemon(
                f"slurmd-n{k}",
                (tool["slurmd"], "-D", "-N", f"n{k}", "-d", tool["slurmstepd"]),
                machine=f"n{k}",
            )
            for k in range(1, NODES + 1)
        ),
        login,
    ]


def _clear(base: Path, state: State | None) -> bool:
    """End processes, wait for the network to go, remove sockets, spool and the short link."""
    root = state.root if state else str(base)
    was_running = _end_processes(root, state)
    network = network_of(state) if state and state.boot == boot_id() else None
    if network:
        gone = wait_until("the network", lambda: not netlink.exists(network.interface), 3)
        if not gone:
            netlink.remove(network.interface)
    if state and state.slurm and state.packages:
        _keep_database(base, state)
    drop_root(base, root)
    if state and state.made_run_sshd and RUN_SSHD.is_dir():
        RUN_SSHD.rmdir()
    for name in _VOLATILE_FOLDERS:
        shutil.rmtree(base / name, ignore_errors=True)
    for name in _VOLATILE_FILES:
        (base / name).unlink(missing_ok=True)
    return was_running


def _keep_database(base: Path, state: State) -> None:
    packages_folder = Path(state.packages)
    accounting.save_copy(Layout(base, Path(state.root)), slurm_plan(state), packages_folder)


def _end_processes(root: str, state: State | None) -> bool:
    """End the supervisor, which ends all others, then processes that a killed one left."""
    was_running = False
    if state and probe.is_supervised(state):
        was_running, owner = True, probe.supervisor_of(state)
        processes.send(owner, signal.SIGTERM)
        if not wait_until("jobs and daemons to end", lambda: not processes.is_alive(owner), STOP_S):
            processes.end_processes([owner], 0)
    left = processes.find_leftovers(Path(root), f"{root}/etc/slurm.conf")
    if left:
        was_running = True
        print_progress(f"ending {len(left)} processes that outlived their supervisor")
        remaining = processes.end_processes(left, supervisor.GRACE_S)
        if remaining:
            pids = ", ".join(str(process.pid) for process in remaining)
            raise ClusterError(f"these processes do not end: {pids}", "end them by hand")
    return was_running
