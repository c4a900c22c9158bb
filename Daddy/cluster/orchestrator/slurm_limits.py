"""Pure. Reads a Slurm site's job limits and reservations from the output of its commands.

A limit can be part of the user's association, the account's association, the job's QOS or the
partition's QOS, and can count jobs, GPUs or CPUs. The smallest applies. Any command may fail,
because sites hide their accounting; the controller then learns the limit from pending reasons in
the queue. Formats: sacctmgr(1), scontrol(1), Slurm 22.05.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from Daddy.cluster.orchestrator.controller_types import SiteLimits

RunQuery = Callable[[Sequence[str]], "str | None"]
"""Runs a command and returns its output, or None where it failed."""
Request = Mapping[str, str | int]
"""The sbatch options of a job, by long name."""
_Row = Mapping[str, str]
_Limit = tuple[int, str]
"""(number of jobs, name of the limit)."""

STATES = "%P|%a|%T"
"""The argument of ``sinfo --format`` for :func:`describe_closed`."""
_SHOW = ("sacctmgr", "--noheader", "--parsable2", "show")
_ASSOCIATION = (
    "Account", "User", "Partition", "QOS", "DefaultQOS",
    "MaxJobs", "MaxSubmit", "GrpJobs", "GrpSubmit", "GrpTRES",
)  # fmt: skip
_QOS = (
    "Name", "Flags", "MaxJobsPU", "MaxSubmitPU", "MaxTRESPU",
    "MaxJobsPA", "MaxSubmitPA", "GrpJobs", "GrpSubmit", "GrpTRES",
)  # fmt: skip
_RUN = ("MaxJobs", "GrpJobs", "MaxJobsPU", "MaxJobsPA")
_SUBMIT = ("MaxSubmit", "GrpSubmit", "MaxSubmitPU", "MaxSubmitPA")
_TRES = ("MaxTRESPU", "GrpTRES")
_SHUT_PARTITION = ("down", "inact")
_SHUT_NODE = (
    "down", "drain", "drained", "draining", "fail", "failing", "future", "maint", "inval", "error",
)  # fmt: skip
"""States in which Slurm starts no job: sinfo(1), Slurm 22.05 to 24.05, without the suffix."""
_FACT = re.compile(r"(\w+)=(\S*)")


def read_site(run_query: RunQuery, user: str, request: Request) -> tuple[SiteLimits, str]:
    """Return the site's limits and as text their source; runs at most six commands."""
    lines = (
        line.partition("=")
        for line in (run_query(("scontrol", "show", "config")) or "").split("\n")
    )
    config = {name.strip(): value.strip() for name, given, value in lines if given}
    enforce = config.get("AccountingStorageEnforce", "").lower().replace(" ", "").split(",")
    stalls = "assoc_limit_stop" in config.get("SchedulerParameters", "")
    if not {"limits", "safe", "all"} & set(enforce):
        cause = "enforces no limits" if config else "does not show its configuration"
        return SiteLimits(blocks_others=stalls), f"Slurm {cause}"
    rows = _limiting_rows(run_query, user, request)
    running = [limit for where, row in rows for limit in _running_limits(row, where, request)]
    submitted = [limit for where, row in rows for limit in _counts(row, _SUBMIT, where)]
    cap, most = min(running, default=None), min(submitted, default=None)
    site = SiteLimits(
        max_running=None if cap is None else cap[0],
        max_submitted=None if most is None else most[0],
        enforced=cap is not None,
        blocks_others=stalls,
    )
    sources = [f"{name} {jobs}" for jobs, name in filter(None, (cap, most))]
    return site, ", ".join(sources) or "no job limit can be read"


def _limiting_rows(run_query: RunQuery, user: str, request: Request) -> list[tuple[str, _Row]]:
    """Return the rows of sacctmgr that limit such a job, each as (its source, row)."""
    account = str(request.get("account", "")) or _default_account(run_query, user)
    partition = str(request.get("partition", ""))
    own = [
        row
        for row in _rows(run_query, _ASSOCIATION, "assoc", f"user={user}")
        if (not account or row["Account"] in ("", account)) and row["Partition"] in ("", partition)
    ]
    limiting = [("your association", row) for row in own]
    if account:
        shared = _rows(run_query, _ASSOCIATION, "assoc", f"account={account}", "user=")
        rows = (row for row in shared if row["Account"] == account and not row["User"])
        limiting += [("the account", row) for row in rows]
    names = {str(request.get("qos", "")) or _default_qos(own), _partition_qos(run_query, partition)}
    wanted = sorted(names - {""})
    qos = _rows(run_query, _QOS, "qos", f"name={','.join(wanted)}")
    return limiting + [(f"QOS {row['Name']}", row) for row in qos if row["Name"] in wanted]


def _rows(run_query: RunQuery, columns: tuple[str, ...], *query: str) -> list[_Row]:
    """Run ``sacctmgr show`` and return the lines that have exactly these columns."""
    lines = (run_query((*_SHOW, *query, f"format={','.join(columns)}")) or "").splitlines()
    cells = (line.split("|") for line in lines)
    return [dict(zip(columns, line, strict=True)) for line in cells if len(line) == len(columns)]


def _default_account(run_query: RunQuery, user: str) -> str:
    text = run_query((*_SHOW, "user", user, "format=DefaultAccount")) or ""
    return text.strip() if len(text.split()) == 1 else ""


def _default_qos(own: Sequence[_Row]) -> str:
    """Return a job's QOS without ``--qos``: the association's default or only one, or Slurm's."""
    defaults = [row["DefaultQOS"] for row in own if row["DefaultQOS"]]
    single = [row["QOS"] for row in own if row["QOS"] and "," not in row["QOS"]]
    return next(iter([*defaults, *single]), "normal")


def _partition_qos(run_query: RunQuery, partition: str) -> str:
    text = (
        run_query(("scontrol", "--oneliner", "show", "partition", partition)) if partition else None
    )
    match = re.search(r"\bQoS=(\S+)", text or "")
    return match[1] if match and match[1] != "N/A" else ""


def _counts(row: _Row, names: tuple[str, ...], where: str) -> list[_Limit]:
    cells = ((name, row.get(name, "")) for name in names)
    return [(int(cell), f"{name} of {where}") for name, cell in cells if cell.isdigit()]


def _running_limits(row: _Row, where: str, request: Request) -> Iterator[_Limit]:
    """Return limits of jobs, also those from resources such as ``cpu=32,gres/gpu=4``."""
    yield from _counts(row, _RUN, where)
    gres = str(request.get("gres", ""))
    asked = gres[4:] if gres.startswith("gpu:") else ""
    asked = str(request.get("gpus", request.get("gpus-per-node", asked)))
    model, _, gpus = asked.rpartition(":")
    cpus = str(request.get("cpus-per-task", 1))
    each = {"cpu": cpus, "gres/gpu": gpus, f"gres/gpu:{model}": gpus, "node": "1"}
    for name in _TRES:
        for part in row.get(name, "").split(","):
            kind, _, most = part.partition("=")
            need = each.get(kind, "")
            if most.isdigit() and need.isdigit() and int(need):
                yield int(most) // int(need), f"{name} {kind} of {where}"


def maintenance_begins(text: str, partition: str, now: float) -> float | None:
    """Return the start of the partition's next or current maintenance; None if none is listed."""
    begins = []
    for line in text.splitlines():
        facts = dict(_FACT.findall(line))
        flags, where = facts.get("Flags", ""), facts.get("PartitionName", "(null)")
        start, end = facts.get("StartTime", ""), facts.get("EndTime", "")
        applies = where in ("(null)", "", partition) or not partition
        if "MAINT" in flags.split(",") and applies and start.isdigit() and end.isdigit():
            begins += [float(start)] if float(end) > now else []
    return min(begins, default=None)


def describe_closed(text: str, request: Request) -> str:
    """Return Slurm's words on partitions in which no job can start; "" if one of them is open.

    ``text``: output of sinfo in ``STATES``. Without a partition in ``request`` the default counts.
    A reservation of our own may be in a maintenance.
    """
    wanted = [name for name in str(request.get("partition", "")).split(",") if name]
    shut = [state for state in _SHUT_NODE if state != "maint" or not request.get("reservation")]
    told: dict[str, list[str]] = {}
    for line in text.splitlines():
        name, up, state = [*line.strip().split("|"), "", ""][:3]
        if name.rstrip("*") not in wanted if wanted else not name.endswith("*"):
            continue
        state, closed = state.rstrip("*~#!%$@^-+"), up in _SHUT_PARTITION
        if not closed and state not in shut:
            return ""
        words = f"partition {name.rstrip('*')} is {up}" if closed else state
        told.setdefault(name.rstrip("*"), []).append(words)
    return "; ".join(
        words[0] if " " in words[0] else f"nodes of {name}: {', '.join(dict.fromkeys(words))}"
        for name, words in told.items()
    )
