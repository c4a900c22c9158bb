"""From nothing to a cluster that answers, and back to nothing."""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import re
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from . import namespaces, netlink, packages, processes, supervisor, texts
from .commands import run
from .layout import (
    FOLDERS,
    Layout,
    State,
    boot_id,
    choose_root,
    drop_root,
    load_state,
    open_layout,
    save_state,
    write_text,
)
from .say import SandboxError, say, wait_until

FRIEND, FRIEND_ID = "friend", 20001
SSH_PORT = 22
START_S = 40.0


@dataclass(frozen=True)
class Wishes:
    """What the person asked ``up`` for."""

    base: Path
    packages: Path
    slurm: bool = True
    isolated: bool = True
    max_jobs: int = 4


@contextmanager
def locked(base: Path) -> Iterator[None]:
    """One ``up`` or ``down`` at a time per folder."""
    base.mkdir(parents=True, exist_ok=True)
    with (base / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def up(wishes: Wishes) -> State:
    """Start what is not running; the state of a sandbox that answers. Raises SandboxError."""
    with locked(wishes.base):
        state = load_state(wishes.base)
        if state and supervised(state) and state.slurm >= wishes.slurm:
            return _revive(wishes.base, state)
        _clear(wishes.base, state)
        return _start(wishes)


def down(base: Path, *, purge: bool = False) -> bool:
    """End everything of this sandbox, also of a half-started one. False: nothing was there."""
    if not base.is_dir():
        return False
    with locked(base):
        was = _clear(base, load_state(base))
    if purge:
        shutil.rmtree(base)
    return was


def supervisor_of(state: State) -> processes.Process:
    """Who supervises this sandbox."""
    return processes.Process(state.supervisor_pid, state.supervisor_start)


def supervised(state: State) -> bool:
    """Whether the process that owns this sandbox is alive."""
    return state.boot == boot_id() and processes.alive(supervisor_of(state))


def _revive(base: Path, state: State) -> State:
    """It runs already; daemons that died are started again."""
    layout = open_layout(base)
    if missing_daemons(layout, state):
        say(f"starting again: {', '.join(missing_daemons(layout, state))}")
        processes.send(supervisor_of(state), signal.SIGHUP)
    await_answer(layout, state)
    return state


def _start(wishes: Wishes) -> State:
    programs = packages.ensure(wishes.packages, slurm=wishes.slurm)
    begun = time.monotonic()
    wishes.base.chmod(0o755)
    layout = Layout(wishes.base, choose_root(wishes.base))
    for name in FOLDERS:
        (wishes.base / name).mkdir(exist_ok=True)
        (wishes.base / name).chmod(0o700 if name == "munge" else 0o755)
    state, cable = _decide(wishes, layout, programs)
    save_state(wishes.base, state)
    try:
        _write_files(layout, state, programs)
        state = _launch(layout, state, programs, cable)
        await_answer(layout, state)
    except BaseException:
        say("start failed, ending what was started")
        _clear(wishes.base, load_state(wishes.base))
        raise
    say(f"up after {time.monotonic() - begun:.1f} s")
    return state


def _decide(
    wishes: Wishes, layout: Layout, programs: packages.Programs
) -> tuple[State, namespaces.Cable | None]:
    """Mode, addresses, ports, users."""
    reason = namespaces.can_isolate() if wishes.isolated else "asked for"
    cable = None if reason else namespaces.free_cable()
    host = cable.far if cable else "127.0.0.1"
    ports = free_ports("127.0.0.1", texts.NODES + 2)
    open_to_all = world_can_enter(wishes.base) and world_can_enter(wishes.packages)
    state = State(
        root=str(layout.root),
        mode="namespace" if cable else "loopback",
        slurm=wishes.slurm,
        host=host,
        port=SSH_PORT if cable else ports.pop(),
        user=getpass.getuser(),
        remote_port=9999 if cable else 9998,
        friend=FRIEND if cable and open_to_all else "",
        interface=cable.interface if cable else "",
        controller_host=host,
        ports=ports[: texts.NODES + 1],
        max_jobs=wishes.max_jobs,
        prefix=str(programs.prefix or ""),
        path=programs.bin,
        slurm_version=slurm_version(programs) if wishes.slurm else "",
        boot=boot_id(),
        reason=reason,
        tools=programs.tools,
    )
    return state, cable


def _write_files(layout: Layout, state: State, programs: packages.Programs) -> None:
    login = login_plan(layout, state, programs)
    for user in filter(None, (state.user, state.friend)):
        make_key(programs, layout.base / "ssh" / f"key_{user}")
        public = (layout.base / "ssh" / f"key_{user}.pub").read_text()
        write_text(layout.base / "ssh" / f"authorized_{user}", public)
    make_key(programs, layout.base / "ssh" / "host_key")
    host_key = (layout.base / "ssh" / "host_key.pub").read_text()
    write_text(layout.base / "ssh" / "known_hosts", texts.known_hosts(login, host_key))
    write_text(layout.etc / "sshd_config", texts.sshd_config(login))
    write_text(layout.etc / "login", texts.login_script(login), 0o755)
    write_text(layout.etc / "bashrc", texts.bashrc(login))
    write_text(layout.ssh_config, texts.ssh_config(login), 0o600)
    write_text(layout.env_file, texts.env_sh(login, programs.bin))
    if state.mode == "namespace":
        _write_users(layout, state)
    if state.slurm:
        _write_slurm(layout, state, programs)


def _write_users(layout: Layout, state: State) -> None:
    home = layout.base / "home" / (state.friend or "nobody")
    users = texts.passwd(Path("/etc/passwd").read_text(), state.friend, str(home), FRIEND_ID)
    groups = Path("/etc/group").read_text().rstrip("\n") + "\n"
    hosts = Path("/etc/hosts").read_text().rstrip("\n") + "\n"
    if state.friend:
        groups += f"{state.friend}:x:{FRIEND_ID}:\n"
        home.mkdir(exist_ok=True)
        os.chown(home, FRIEND_ID, FRIEND_ID)
    write_text(layout.user_files / "passwd", users)
    write_text(layout.user_files / "shadow", texts.shadow(users), 0o600)
    write_text(layout.user_files / "group", groups)
    write_text(layout.user_files / "hosts", f"{hosts}127.0.1.1 {namespaces.HOSTNAME}\n")


def _write_slurm(layout: Layout, state: State, programs: packages.Programs) -> None:
    plan = texts.Plan(
        root=state.root,
        user=state.user,
        controller_host=state.controller_host,
        ports=tuple(state.ports),
        slurm_version=_numbers(state.slurm_version),
        plugins=programs.slurm_plugins,
        max_jobs=state.max_jobs,
        user_ids=(os.getuid(), *([FRIEND_ID] if state.friend else [])),
        own_network=state.mode == "namespace",
    )
    write_text(layout.etc / "slurm.conf", texts.slurm_conf(plan))
    write_text(layout.etc / "gres.conf", texts.gres_conf())
    write_text(layout.etc / "cgroup.conf", texts.cgroup_conf(plan))
    write_text(layout.etc / "job_submit.lua", texts.job_submit_lua())
    key = layout.munge / "key"
    if not key.exists():
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
    for index in range(1, texts.NODES + 1):
        (layout.spool / f"n{index}").mkdir(exist_ok=True)


def _launch(
    layout: Layout, state: State, programs: packages.Programs, cable: namespaces.Cable | None
) -> State:
    environment = {
        "PATH": ":".join(filter(None, (programs.bin, packages.SYSTEM_PATH))),
        "HOME": str(Path.home()),
        "LANG": "C.UTF-8",
        processes.MARK: state.root,
        **programs.environment(),
        **({"SLURM_CONF": str(layout.slurm_conf)} if state.slurm else {}),
    }

    def work() -> None:
        login = None
        if cable:
            namespaces.private_users(layout.user_files)
            login = namespaces.build_login_node(cable, layout.user_files, state.host)
        elif os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        supervisor.Supervisor(
            daemons(layout, state, programs),
            environment,
            layout.daemons_file,
            layout.base / "log",
            login,
        ).serve()

    started = supervisor.detach(work, layout.base / "log" / "supervisor.out")
    state = replace(state, supervisor_pid=started.pid, supervisor_start=started.start)
    save_state(layout.base, state)
    return state


def daemons(layout: Layout, state: State, programs: packages.Programs) -> list[supervisor.Daemon]:
    """Everything that runs, in the order of starting."""
    tool = programs.tools
    sshd = supervisor.Daemon(
        "sshd", (tool["sshd"], "-D", "-e", "-f", str(layout.etc / "sshd_config")), at_login=True
    )
    if not state.slurm:
        return [sshd]
    munge = layout.munge
    munged = (
        tool["munged"], "-F", "--num-threads=2", f"--key-file={munge / 'key'}",
        f"--socket={layout.munge_socket}", f"--pid-file={layout.run / 'munged.pid'}",
        f"--seed-file={munge / 'seed'}", f"--log-file={munge / 'log'}",
    )  # fmt: skip
    nodes = [
        supervisor.Daemon(
            f"slurmd-n{index}",
            (tool["slurmd"], "-D", "-N", f"n{index}", "-d", tool["slurmstepd"]),
            at_login=True,
        )
        for index in range(1, texts.NODES + 1)
    ]
    return [
        supervisor.Daemon("munged", munged, socket=str(layout.munge_socket)),
        supervisor.Daemon("slurmctld", (tool["slurmctld"], "-D"), at_login=True),
        *nodes,
        sshd,
    ]


def await_answer(layout: Layout, state: State) -> None:
    """Wait until ssh works and every node is idle or busy. Raises SandboxError."""
    unready = "nothing"

    def ready() -> bool:
        nonlocal unready
        if not processes.alive(supervisor_of(state)):
            raise SandboxError(
                f"the supervisor ended: {last_line(layout.base / 'log' / 'supervisor.out')}",
                f"see {layout.base / 'log'}",
            )
        unready = not_ready(layout, state)
        return not unready

    if not wait_until("the cluster", ready, START_S):
        raise SandboxError(
            f"{unready} did not answer in {START_S:.0f} s", f"see {layout.base / 'log'}"
        )


def not_ready(layout: Layout, state: State) -> str:
    """The first part that does not answer; empty when all do."""
    missing = missing_daemons(layout, state)
    if missing:
        return missing[0]
    try:
        with socket.create_connection((state.host, state.port), timeout=2) as link:
            link.settimeout(2)
            if not link.recv(4).startswith(b"SSH"):
                return "sshd"
    except OSError:
        return "sshd"
    if (
        state.slurm
        and sum(one in ("idle", "mixed", "allocated") for one in nodes(state)) < texts.NODES
    ):
        return "slurmctld or a node"
    return ""


def missing_daemons(layout: Layout, state: State) -> list[str]:
    """Names of daemons that do not run."""
    wanted = ["sshd"]
    if state.slurm:
        wanted += ["munged", "slurmctld", *(f"slurmd-n{i}" for i in range(1, texts.NODES + 1))]
    try:
        found = json.loads(layout.daemons_file.read_text())
    except (OSError, ValueError):
        found = {}
    return [
        name
        for name in wanted
        if name not in found or not processes.alive(processes.Process(*found[name]))
    ]


def nodes(state: State) -> list[str]:
    """State of every node, as sinfo writes it; empty when the controller does not answer."""
    environment = client_environment(state)
    command = [client(state, "sinfo"), "-h", "-N", "-p", texts.PARTITION, "-o", "%T"]
    try:
        return run(command, 20, environment).split()
    except SandboxError:
        return []


def client(state: State, tool: str) -> str:
    """The program a client should start: the wrapper where packages were unpacked."""
    wrapper = Path(state.path or "/nonexistent") / tool
    return str(wrapper) if wrapper.exists() else state.tools[tool]


def client_environment(state: State) -> dict[str, str]:
    """The environment of a person who sourced env.sh."""
    dropped = ("SLURM_", "SBATCH_", "SQUEUE_", "SINFO_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    path = ":".join(filter(None, (state.path, kept.get("PATH", packages.SYSTEM_PATH))))
    conf = {"SLURM_CONF": f"{state.root}/etc/slurm.conf"} if state.slurm else {}
    return {**kept, **conf, "PATH": path}


def login_plan(layout: Layout, state: State, programs: packages.Programs) -> texts.LoginPlan:
    """What the login node's texts depend on."""
    sftp = Path(programs.bin) / "sftp-server"
    return texts.LoginPlan(
        base=str(layout.base),
        root=state.root,
        host=state.host,
        port=state.port,
        user=state.user,
        friend=state.friend,
        path=":".join(filter(None, (programs.bin, packages.SYSTEM_PATH))),
        sftp_server=str(sftp) if programs.bin and sftp.exists() else programs.tools["sftp-server"],
        slurm=state.slurm,
    )


def _clear(base: Path, state: State | None) -> bool:
    """End processes, wait for the cable to go, remove sockets, spool and the short link."""
    root = state.root if state else str(base)
    same_boot = state is not None and state.boot == boot_id()
    was = False
    if state and same_boot and processes.alive(supervisor_of(state)):
        was = True
        processes.send(supervisor_of(state), signal.SIGTERM)
        gone = wait_until(
            "jobs and daemons to end", lambda: not processes.alive(supervisor_of(state)), 20
        )
        if not gone:
            processes.end([supervisor_of(state)], 0)
    left = processes.leftovers(Path(root), f"{root}/etc/slurm.conf")
    if left:
        was = True
        say(f"ending {len(left)} processes that outlived their supervisor")
        processes.end(left, supervisor.GRACE_S)
    if state and same_boot and state.interface:
        if not wait_until("the network", lambda: not netlink.exists(state.interface), 3):
            netlink.remove(state.interface)
    if state:
        drop_root(base, state.root)
    for name in ("run", "state", "spool"):
        shutil.rmtree(base / name, ignore_errors=True)
    for name in ("sandbox.json", "env.sh", "ssh_config"):
        (base / name).unlink(missing_ok=True)
    return was


def make_key(programs: packages.Programs, path: Path) -> None:
    """An ed25519 key pair at ``path``; an existing one stays."""
    if path.exists() and path.with_name(f"{path.name}.pub").exists():
        return
    path.unlink(missing_ok=True)
    tool = Path(programs.bin or "/nonexistent") / "ssh-keygen"
    command = str(tool) if tool.exists() else programs.tools["ssh-keygen"]
    run([command, "-q", "-t", "ed25519", "-N", "", "-C", "sandbox", "-f", str(path)], 20)


def free_ports(host: str, count: int) -> list[int]:
    """Ports nobody listens on, by binding them all at once."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind((host, 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def world_can_enter(folder: Path) -> bool:
    """Whether another user may pass through every folder on the way."""
    return all(
        place.stat().st_mode & 0o001 for place in (folder, *folder.parents) if place.exists()
    )


def slurm_version(programs: packages.Programs) -> str:
    """Such as 22.05.8."""
    answer = run([programs.tools["slurmctld"], "-V"], 10, {**os.environ, **programs.environment()})
    match = re.search(r"\d+\.\d+\.\d+", answer)
    return match.group() if match else "0.0.0"


def _numbers(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def last_line(path: Path) -> str:
    """The last line of a log; empty without one."""
    try:
        return (path.read_text(errors="replace").strip().splitlines() or [""])[-1]
    except OSError:
        return ""
