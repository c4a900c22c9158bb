"""Slurm's accounting: a private MariaDB, slurmdbd in front of it, the account and the cap in it.

The database is a folder of the test cluster: no network, no user but its owner gets at its socket.
Nothing in it is worth a disk's patience, so nothing is flushed. Making one takes seconds, so
``down`` keeps a copy beside the packages, and the next ``up``, wherever, starts from that: limits
as they were at first, no job in it, for their ids come again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

from . import slurm_texts
from .layout import Layout, State, write_text
from .namespaces import LOGIN
from .packages import Programs
from .progress import ClusterError
from .run_child import run_watched
from .supervisor import Daemon

BOOTSTRAP_S = 60
_QUICK = (
    "--loose-innodb-flush-method=nosync",
    "--loose-innodb-flush-log-at-trx-commit=0",
    "--loose-innodb-doublewrite=0",
    "--loose-innodb-buffer-pool-size=16M",
    "--loose-innodb-log-file-size=8M",
    "--loose-innodb-autoextend-increment=1",
    "--loose-innodb-data-file-path=ibdata1:2M:autoextend",
    "--loose-innodb-temp-data-file-path=ibtmp1:2M:autoextend",
    "--loose-performance-schema=0",
)


def prepare(layout: Layout, plan: slurm_texts.Plan, programs: Programs) -> None:
    """Write what the two daemons read; make the database where there is none."""
    etc = layout.etc
    write_text(etc / "slurmdbd.conf", slurm_texts.slurmdbd_conf(plan), 0o600)
    write_text(etc / "accounting", slurm_texts.accounting_commands(plan))
    if not _settled(layout, plan).exists():
        _make(layout, plan, programs)
    fresh = not _settled(layout, plan).exists()
    write_text(etc / "accounting.sql", "" if fresh else slurm_texts.as_at_first(plan))


def _make(layout: Layout, plan: slurm_texts.Plan, programs: Programs) -> None:
    """A copy of an earlier test cluster's database, or an empty one."""
    shutil.rmtree(layout.db, ignore_errors=True)
    copy = _copy(programs.folder, plan)
    if copy.is_dir():
        shutil.copytree(copy, layout.db)
    else:
        _bootstrap(layout, programs)


def keep(layout: Layout, plan: slurm_texts.Plan, packages: Path) -> None:
    """After the end of a test cluster: its database for the next ones."""
    copy = _copy(packages, plan)
    part = copy.with_name(f".{copy.name}.{os.getpid()}")
    if copy.exists() or not _settled(layout, plan).exists():
        return
    with contextlib.suppress(OSError, shutil.Error):  # another was faster, or no room
        shutil.copytree(layout.db, part, ignore=shutil.ignore_patterns("s", "ibtmp1"))
        part.rename(copy)
    shutil.rmtree(part, ignore_errors=True)


def _copy(packages: Path, plan: slurm_texts.Plan) -> Path:
    release = ".".join(map(str, plan.slurm_version))
    return packages / "-".join(["accounting", release, *plan.users])


def _bootstrap(layout: Layout, programs: Programs) -> None:
    """An empty database with the server's own tables."""
    folder = layout.db
    folder.mkdir(mode=0o700)
    tables = _tables(programs)
    script, log = layout.run / "bootstrap.sql", layout.log / "mariadbd.out"
    try:
        script.write_text(f"create database mysql;\nuse mysql;\n{tables.read_text()}")
    except OSError as error:
        raise ClusterError(f"missing here: {tables}", "install mariadb-server-core") from error
    shell = 'exec "$@" < "$0"'  # its only way to be told
    argv = ["sh", "-c", shell, str(script), *_mariadbd(layout, programs), "--bootstrap"]
    environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **programs.environment()}
    if run_watched("the database", argv, BOOTSTRAP_S, layout.base, log, environment):
        raise ClusterError("the accounting database could not be made", f"see {log}")


def _mariadbd(layout: Layout, programs: Programs) -> list[str]:
    folders = [f"--datadir={layout.db}", f"--lc-messages-dir={_tables(programs).parent}"]
    user = [f"--user={layout.db.owner()}"]  # as root it would refuse without a word of ours
    program = programs.tools["mariadbd"]
    return [program, "--no-defaults", *user, *folders, *_QUICK, "--skip-grant-tables"]


def _tables(programs: Programs) -> Path:
    """The server's own tables as SQL; beside them are its messages."""
    share = Path(programs.tools["mariadbd"]).resolve().parents[1] / "share"
    places = [share / name / f"{name}_system_tables.sql" for name in ("mariadb", "mysql")]
    return next((place for place in places if place.exists()), places[-1])


def _settled(layout: Layout, plan: slurm_texts.Plan) -> Path:
    """Exists once account, QOS and users are in the database."""
    return layout.db / "-".join(["settled", *plan.users])


def daemons(layout: Layout, plan: slurm_texts.Plan, programs: Programs) -> list[Daemon]:
    """The database and slurmdbd, in the order of starting."""
    socket = slurm_texts.database_socket(plan)
    server = [
        *_mariadbd(layout, programs), "--skip-networking", f"--socket={socket}",
        "--max-connections=32", f"--pid-file={layout.run / 'mariadbd.pid'}",
        f"--init-file={layout.etc / 'accounting.sql'}",
    ]  # fmt: skip
    return [
        Daemon("mariadbd", tuple(server), socket=socket),
        Daemon(
            "slurmdbd",
            (programs.tools["slurmdbd"], "-D"),
            machine=LOGIN,
            environment={"MYSQL_UNIX_PORT": socket},
            address=(plan.controller_host, plan.database_port),
        ),
    ]


def settle(layout: Layout, plan: slurm_texts.Plan, state: State, programs: Programs) -> list[str]:
    """A command that tells slurmdbd who may do what, once; slurmctld must come after it."""
    done, tool = _settled(layout, plan), programs.tools["sacctmgr"]
    commands, log = layout.etc / "accounting", layout.log / "sacctmgr.out"
    wrapper = Path(state.path or "/nonexistent") / "sacctmgr"
    tool = str(wrapper) if wrapper.exists() else tool
    shell = '[ -e "$1" ] || { "$2" -i -Q < "$3" > "$4" 2>&1; touch "$1"; }'
    return ["sh", "-c", shell, "settle", str(done), tool, str(commands), str(log)]
