"""Sets up Slurm's accounting: a private MariaDB, slurmdbd, the account and the limit per user.

The database is a folder of the test cluster; it uses no network, and only its owner may open its
socket. It never flushes to disk, because its content may be lost. Creating one takes seconds, so
``down`` keeps a copy beside the packages and the next ``up`` starts from that copy, after resetting
its limits and deleting its jobs, whose ids are used again.
"""

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
    """Write the configuration of the two daemons; make the database where there is none."""
    etc = layout.etc
    write_text(etc / "slurmdbd.conf", slurm_texts.slurmdbd_conf(plan), 0o600)
    write_text(etc / "accounting", slurm_texts.accounting_commands(plan))
    if not _accounts_stamp(layout, plan).exists():
        _make(layout, plan, programs)
    fresh = not _accounts_stamp(layout, plan).exists()
    write_text(etc / "accounting.sql", "" if fresh else slurm_texts.reset_database_sql(plan))


def _make(layout: Layout, plan: slurm_texts.Plan, programs: Programs) -> None:
    """Copy an earlier test cluster's database, or create an empty one."""
    shutil.rmtree(layout.db, ignore_errors=True)
    copy = _copy(programs.folder, plan)
    if copy.is_dir():
        shutil.copytree(copy, layout.db)
    else:
        _bootstrap(layout, programs)


def save_copy(layout: Layout, plan: slurm_texts.Plan, packages: Path) -> None:
    """Copy the database of an ended test cluster for later ones."""
    copy = _copy(packages, plan)
    temp = copy.with_name(f".{copy.name}.{os.getpid()}")
    if copy.exists() or not _accounts_stamp(layout, plan).exists():
        return
    with contextlib.suppress(OSError, shutil.Error):  # another process was first, or no space
        shutil.copytree(layout.db, temp, ignore=shutil.ignore_patterns("s", "ibtmp1"))
        temp.rename(copy)
    shutil.rmtree(temp, ignore_errors=True)


def _copy(packages: Path, plan: slurm_texts.Plan) -> Path:
    release = ".".join(map(str, plan.slurm_version))
    return packages / "-".join(["accounting", release, *plan.users])


def _bootstrap(layout: Layout, programs: Programs) -> None:
    """Create an empty database with the server's own tables."""
    folder = layout.db
    folder.mkdir(mode=0o700)
    tables = _tables(programs)
    script, log = layout.run / "bootstrap.sql", layout.log / "mariadbd.out"
    try:
        script.write_text(f"create database mysql;\nuse mysql;\n{tables.read_text()}")
    except OSError as error:
        raise ClusterError(f"missing here: {tables}", "install mariadb-server-core") from error
    shell = 'exec "$@" < "$0"'  # --bootstrap reads stdin
    argv = ["sh", "-c", shell, str(script), *_mariadbd(layout, programs), "--bootstrap"]
    environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **programs.environment()}
    if run_watched("the database", argv, BOOTSTRAP_S, layout.base, log, environment):
        raise ClusterError("the accounting database could not be made", f"see {log}")


def _mariadbd(layout: Layout, programs: Programs) -> list[str]:
    folders = [f"--datadir={layout.db}", f"--lc-messages-dir={_tables(programs).parent}"]
    user = [f"--user={layout.db.owner()}"]  # it refuses to run as root without
    program = programs.tools["mariadbd"]
    return [program, "--no-defaults", *user, *folders, *_QUICK, "--skip-grant-tables"]


def _tables(programs: Programs) -> Path:
    """Return the SQL file of the server's own tables; its folder has the server's messages."""
    share = Path(programs.tools["mariadbd"]).resolve().parents[1] / "share"
    paths = [share / name / f"{name}_system_tables.sql" for name in ("mariadb", "mysql")]
    return next((path for path in paths if path.exists()), paths[-1])


def _accounts_stamp(layout: Layout, plan: slurm_texts.Plan) -> Path:
    """Return the file that exists once account, QOS and users are in the database."""
    return layout.db / "-".join(["settled", *plan.users])


def make_daemons(layout: Layout, plan: slurm_texts.Plan, programs: Programs) -> list[Daemon]:
    """Return the database server and slurmdbd, in the order of starting."""
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


def accounts_command(
    layout: Layout, plan: slurm_texts.Plan, state: State, programs: Programs
) -> list[str]:
    """Return a command that creates account, QOS and users once, to run before slurmctld."""
    stamp, tool = _accounts_stamp(layout, plan), programs.tools["sacctmgr"]
    commands, log = layout.etc / "accounting", layout.log / "sacctmgr.out"
    wrapper = Path(state.path or "/nonexistent") / "sacctmgr"
    tool = str(wrapper) if wrapper.exists() else tool
    shell = '[ -e "$1" ] || { "$2" -i -Q < "$3" > "$4" 2>&1; touch "$1"; }'
    return ["sh", "-c", shell, "accounts", str(stamp), tool, str(commands), str(log)]
