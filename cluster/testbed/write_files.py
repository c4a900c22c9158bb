"""Writes every file of a test cluster's folder: keys, users, sshd, ssh, Slurm."""

import os
from pathlib import Path

from . import accounting, login_texts, slurm_texts
from .layout import FOLDERS, Layout, State, write_text
from .namespaces import LOGIN, Network
from .packages import SYSTEM_PATH, Programs
from .plan_addresses import FRIEND_ID, make_nodes
from .run_child import run

_PRIVATE = ("munge", "db")


def make_folders(base: Path) -> None:
    """Create the folders without group write permission, which munged refuses."""
    base.chmod(0o755)
    for name in FOLDERS:
        (base / name).mkdir(exist_ok=True)
        (base / name).chmod(0o700 if name in _PRIVATE else 0o755)


def write_all(layout: Layout, state: State, programs: Programs) -> None:
    """Write all configuration files and keys."""
    _write_login(layout, state, programs)
    if state.private_users:
        _write_users(layout, state)
    if state.slurm:
        _write_slurm(layout, state, programs)


def _write_login(layout: Layout, state: State, programs: Programs) -> None:
    plan, folder = _login_plan(layout, state, programs), layout.base / "ssh"
    for user in filter(None, (state.user, state.friend)):
        public = make_key(programs, folder / f"key_{user}")
        write_text(folder / f"authorized_{user}", public)
    host_key = make_key(programs, folder / "host_key")
    write_text(folder / "known_hosts", login_texts.known_hosts(plan, host_key))
    write_text(layout.etc / "sshd_config", login_texts.sshd_config(plan))
    write_text(layout.etc / "login", login_texts.login_script(plan), 0o755)
    write_text(layout.etc / "bashrc", login_texts.bashrc(plan))
    write_text(layout.ssh_config, login_texts.ssh_config(plan), 0o600)
    write_text(layout.env_file, login_texts.env_sh(plan, programs.bin))


def _login_plan(layout: Layout, state: State, programs: Programs) -> login_texts.LoginPlan:
    sftp = Path(programs.bin) / "sftp-server"
    return login_texts.LoginPlan(
        base=str(layout.base),
        root=state.root,
        host=state.host,
        port=state.port,
        user=state.user,
        friend=state.friend,
        path=":".join(filter(None, (programs.bin, SYSTEM_PATH))),
        sftp_server=str(sftp) if programs.bin and sftp.exists() else programs.tools["sftp-server"],
        slurm=state.slurm,
        program=str(Path(__file__).resolve().parent / "run_testbed"),
    )


def _write_users(layout: Layout, state: State) -> None:
    home = layout.base / "home" / (state.friend or "nobody")
    users = login_texts.passwd(Path("/etc/passwd").read_text(), state.friend, str(home), FRIEND_ID)
    groups = Path("/etc/group").read_text().rstrip("\n") + "\n"
    if state.friend:
        groups += f"{state.friend}:x:{FRIEND_ID}:\n"
        home.mkdir(exist_ok=True)
        os.chown(home, FRIEND_ID, FRIEND_ID)
    machines = {LOGIN: state.host, **{node.name: node.address for node in make_nodes(state)}}
    write_text(layout.user_files / "passwd", users)
    write_text(layout.user_files / "shadow", login_texts.shadow(users), 0o600)
    write_text(layout.user_files / "group", groups)
    hosts = Path("/etc/hosts")
    lines = hosts.read_text() if hosts.exists() else "127.0.0.1 localhost\n"
    write_text(
        layout.user_files / "hosts", login_texts.hosts(lines, machines if state.network else {})
    )


def _write_slurm(layout: Layout, state: State, programs: Programs) -> None:
    plan = slurm_plan(state, programs.slurm_plugins)
    write_text(layout.etc / "slurm.conf", slurm_texts.slurm_conf(plan))
    write_text(layout.etc / "gres.conf", slurm_texts.gres_conf())
    write_text(layout.etc / "cgroup.conf", slurm_texts.cgroup_conf(plan))
    key = layout.munge / "key"
    if not key.exists():
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
    for node in plan.nodes:
        (layout.spool / node.name).mkdir(exist_ok=True)
    accounting.prepare(layout, plan, programs)


def slurm_plan(state: State, plugins: str = "") -> slurm_texts.Plan:
    """Return the settings of Slurm's files; ``plugins``: folder of unpacked plugins."""
    major, minor = state.slurm_version.split(".")[:2]
    return slurm_texts.Plan(
        root=state.root,
        user=state.user,
        controller_name=LOGIN if state.network else "localhost",
        controller_host=state.host,
        controller_port=state.ports[0],
        nodes=make_nodes(state),
        slurm_version=(int(major), int(minor)),
        plugins=plugins,
        max_jobs=state.max_jobs,
        users=tuple(filter(None, (state.user, state.friend))),
        database_port=state.database_port,
        own_network=bool(state.network),
    )


def network_of(state: State) -> Network | None:
    """Return the test cluster's own network, or None in loopback mode."""
    return Network(state.network) if state.network else None


def make_key(programs: Programs, path: Path) -> str:
    """Return the public key of the ed25519 key pair at ``path``; create the pair if missing."""
    public = path.with_name(f"{path.name}.pub")
    if not (path.exists() and public.exists()):
        path.unlink(missing_ok=True)
        wrapper = Path(programs.bin or "/nonexistent") / "ssh-keygen"
        tool = str(wrapper) if wrapper.exists() else programs.tools["ssh-keygen"]
        run([tool, "-q", "-t", "ed25519", "-N", "", "-C", "testbed", "-f", str(path)], 20)
    return public.read_text()
