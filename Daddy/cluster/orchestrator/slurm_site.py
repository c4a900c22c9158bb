"""Pure: asks a Slurm site for its rules through ``ask`` and puts the answers together.

Every question may go unanswered: sites hide their accounting, and then the controller learns from
what it sees. Nothing here is asked more than once per start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from Daddy.cluster.orchestrator import slurm_limits as limits
from Daddy.cluster.orchestrator.records import Site

Ask = Callable[[Sequence[str]], "str | None"]
"""Runs a command; its output, or None where it failed."""
Request = Mapping[str, str | int]
"""What a job asks of Slurm, by long option."""
_TELL = ("sacctmgr", "--noheader", "--parsable2", "show")


def read_site(ask: Ask, user: str, request: Request) -> tuple[Site, str]:
    """What the site allows, and in words where that was read."""
    config = limits.parse_config(ask(("scontrol", "show", "config")) or "")
    enforce = config.get("AccountingStorageEnforce", "").lower().replace(" ", "").split(",")
    stalls = "assoc_limit_stop" in config.get("SchedulerParameters", "")
    if not {"limits", "safe", "all"} & set(enforce):
        why = "enforces no limits" if config else "does not tell its configuration"
        return Site(blocks_others=stalls), f"Slurm {why}"
    running, submitted = _read_limits(ask, user, request)
    cap, most = limits.smallest(running), limits.smallest(submitted)
    site = Site(
        max_running=None if cap is None else cap.jobs,
        max_submitted=None if most is None else most.jobs,
        enforced=cap is not None,
        blocks_others=stalls,
    )
    told = [f"{one.name} {one.jobs}" for one in (cap, most) if one is not None]
    return site, ", ".join(told) or "no limit of jobs is to be read"


def _read_limits(
    ask: Ask, user: str, request: Request
) -> tuple[list[limits.Limit], list[limits.Limit]]:
    """Limits of running and of all jobs, wherever they stand."""
    needs = _needs(request)
    running: list[limits.Limit] = []
    submitted: list[limits.Limit] = []
    own, shared = _associations(ask, user, request)
    for rows, where in ((own, "your association"), (shared, "the account")):
        running += limits.running_limits(rows, where, needs)
        submitted += limits.submit_limits(rows, where)
    for name, rows in _qualities(ask, own, request).items():
        running += limits.running_limits(rows, f"QOS {name}", needs)
        submitted += limits.submit_limits(rows, f"QOS {name}")
    return running, submitted


def _needs(request: Request) -> limits.Needs:
    gpus = str(request.get("gres", "")).rpartition(":")[2]
    cpus = str(request.get("cpus-per-task", 1))
    return limits.Needs(int(gpus) if gpus.isdigit() else 0, int(cpus) if cpus.isdigit() else 1)


def _associations(
    ask: Ask, user: str, request: Request
) -> tuple[tuple[limits.Row, ...], tuple[limits.Row, ...]]:
    """The user's rows of the account that is charged, here or everywhere, and the account's own."""
    form = f"format={','.join(limits.ASSOCIATION)}"
    text = ask((*_TELL, "assoc", f"user={user}", form)) or ""
    own = limits.parse_rows(text, limits.ASSOCIATION)
    account = str(request.get("account", "")) or _default_account(ask, user)
    partition = str(request.get("partition", ""))
    own = tuple(
        row
        for row in own
        if (not account or row["Account"] in ("", account)) and row["Partition"] in ("", partition)
    )
    if not account:
        return own, ()
    text = ask((*_TELL, "assoc", f"account={account}", "user=", form)) or ""
    rows = limits.parse_rows(text, limits.ASSOCIATION)
    return own, tuple(row for row in rows if row["Account"] == account and not row["User"])


def _default_account(ask: Ask, user: str) -> str:
    text = ask((*_TELL, "user", user, "format=DefaultAccount")) or ""
    return text.strip() if len(text.split()) == 1 else ""


def _default_quality(own: Sequence[limits.Row]) -> str:
    """What a job gets that asks for none: the association's default, its only one, or Slurm's."""
    named = [row["DefaultQOS"] for row in own if row["DefaultQOS"]]
    only = [row["QOS"] for row in own if row["QOS"] and "," not in row["QOS"]]
    return next(iter([*named, *only]), "normal")


def _qualities(
    ask: Ask, own: Sequence[limits.Row], request: Request
) -> dict[str, tuple[limits.Row, ...]]:
    """The QOS that a job gets, and that of its partition."""
    partition = str(request.get("partition", ""))
    shown = ask(("scontrol", "--oneliner", "show", "partition", partition)) if partition else None
    name = str(request.get("qos", "")) or _default_quality(own)
    wanted = [one for one in dict.fromkeys((name, limits.partition_quality(shown or ""))) if one]
    form = f"format={','.join(limits.QUALITY)}"
    text = ask((*_TELL, "qos", f"name={','.join(wanted)}", form)) or ""
    rows = limits.parse_rows(text, limits.QUALITY)
    return {name: tuple(row for row in rows if row["Name"] == name) for name in wanted}
