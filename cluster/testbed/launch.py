"""From nothing to a cluster that answers, and back to nothing."""

from __future__ import annotations

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
from .plan_addresses import RUN_SSHD, Wishes, decide
from .progress import ClusterError, say, wait_until
from .slurm_texts import NODES
from .write_files import furnish, make_folders, network_of, slurm_plan

_VOLATILE_FOLDERS = ("run", "state", "spool")
_VOLATILE_FILES = (STATE_FILE, STATE_FILE_BEFORE, "env.sh", "ssh_config")
STOP_S = 20.0


@contextmanager
def locked(base: Path) -> Iterator[None]:
    """One ``up`` or ``down`` at a time per folder."""
    base.mkdir(parents=True, exist_ok=True)
    with (base / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def up(wishes: Wishes) -> State:
    """Start what is not running; the state of a test cluster that answers. Raises ClusterError."""
    with locked(wishes.base):
        state = load_state(wishes.base)
        if state and probe.supervised(state) and state.slurm >= wishes.slurm:
            return _revive(wishes.base, state)
        _clear(wishes.base, state)
        return _start(wishes)


def down(base: Path, *, purge: bool = False) -> bool:
    """End everything of this test cluster, also of a half-started one. False: nothing ran."""
    if not base.is_dir():
        return False
    with locked(base):
        was = _clear(base, load_state(base))
        if purge:
            shutil.rmtree(base)
    return was


def _revive(base: Path, state: State) -> State:
    """It runs already; daemons that died are started again."""
    layout = open_layout(base)
    missing = probe.missing_daemons(layout, state)
    if missing:
        say(f"starting again: {', '.join(missing)}")
        processes.send(probe.supervisor_of(state), signal.SIGHUP)
    probe.await_answer(layout, state)
    return state


def _start(wishes: Wishes) -> State:
    programs = packages.ensure(wishes.packages, slurm=wishes.slurm)
    begun = time.monotonic()
    layout = Layout(wishes.base, choose_root(wishes.base))
    make_folders(wishes.base)
    state = decide(wishes, layout, programs)
    save_state(wishes.base, state)
    try:
        furnish(layout, state, programs)
        state = _launch(layout, state, programs)
        probe.await_answer(layout, state)
    except BaseException:
        say("start failed; ending what was started")
        _clear(wishes.base, load_state(wishes.base))
        raise
    say(f"up after {time.monotonic() - begun:.1f} s")
    return state


def _launch(layout: Layout, state: State, programs: packages.Programs) -> State:
    """Start the supervisor and remember who it is."""
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
        plugged = _plug_in(layout, state)
        supervisor.Supervisor(daemons, environment, layout.daemons_file, logs, plugged).serve()

    owner = supervisor.detach(work, logs / "supervisor.out")
    state = replace(state, supervisor_pid=owner.pid, supervisor_start=owner.start)
    save_state(layout.base, state)
    return state


def _plug_in(layout: Layout, state: State) -> dict[str, namespaces.Machine]:
    """Runs in the supervisor: the machines, where they can be machines of their own."""
    network = network_of(state)
    if state.made_run_sshd:
        RUN_SSHD.mkdir(mode=0o755, exist_ok=True)
    if not state.private_users:
        return {}
    namespaces.private_users(layout.user_files)
    if network:
        return namespaces.build(network, NODES if state.slurm else 0)
    return namespaces.build_without_network()


def _daemons(layout: Layout, state: State, programs: packages.Programs) -> list[supervisor.Daemon]:
    """Everything that runs, in the order of starting."""
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
        *accounting.daemons(layout, plan, programs),
        supervisor.Daemon(
            "slurmctld",
            (tool["slurmctld"], "-D"),
            machine=namespaces.LOGIN,
            before=tuple(accounting.settle(layout, plan, state, programs)),
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
    was = _end_processes(root, state)
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
    return was


def _keep_database(base: Path, state: State) -> None:
    packages_folder = Path(state.packages)
    accounting.keep(Layout(base, Path(state.root)), slurm_plan(state), packages_folder)


def _end_processes(root: str, state: State | None) -> bool:
    """The supervisor takes all with it; what outlived a crashed one is ended here."""
    was = False
    if state and probe.supervised(state):
        was, owner = True, probe.supervisor_of(state)
        processes.send(owner, signal.SIGTERM)
        if not wait_until("jobs and daemons to end", lambda: not processes.alive(owner), STOP_S):
            processes.end([owner], 0)
    left = processes.leftovers(Path(root), f"{root}/etc/slurm.conf")
    if left:
        was = True
        say(f"ending {len(left)} processes that outlived their supervisor")
        still = processes.end(left, supervisor.GRACE_S)
        if still:
            pids = ", ".join(str(one.pid) for one in still)
            raise ClusterError(f"these processes do not end: {pids}", "end them by hand")
    return was
