"""Pure: what scontrol shows of a job and of reservations, and how it is told to change a job."""

from __future__ import annotations

import re

from Daddy.cluster.orchestrator.actions import Amend

_FACT = re.compile(r"(\w+)=(\S*)")


def is_job(text: str, job_id: int, name: str) -> bool:
    """Whether ``scontrol --oneliner show job`` shows the job of this id *and* name."""
    first = re.match(r"JobId=(\d+) (?:ArrayJobId=\S+ ArrayTaskId=\S+ )?JobName=(.*?) \w+=", text)
    return first is not None and (int(first[1]), first[2]) == (job_id, name)


def maintenance_begins(text: str, partition: str, now: float) -> float | None:
    """When the next maintenance of this partition begins, of ``scontrol show reservation`` lines.

    One that goes on already counts as begun; None where none is seen.
    """
    begins = []
    for line in text.splitlines():
        facts = dict(_FACT.findall(line))
        flags, where = facts.get("Flags", ""), facts.get("PartitionName", "(null)")
        start, end = facts.get("StartTime", ""), facts.get("EndTime", "")
        ours = where in ("(null)", "", partition) or not partition
        if "MAINT" in flags.split(",") and ours and start.isdigit() and end.isdigit():
            begins += [float(start)] if float(end) > now else []
    return min(begins, default=None)


def amendments(job_id: int, change: Amend) -> list[list[str]]:
    """The commands that make a change. A limit is cut to whole minutes, which is Slurm's unit.

    ``uhold``, because a hold by an operator's account could not be told from an administrator's.
    """
    facts = []
    if change.exclude is not None:
        facts.append(f"ExcNodeList={','.join(change.exclude)}")
    if change.limit_s is not None:
        facts.append(f"TimeLimit={max(1, change.limit_s // 60)}")
    commands = [["scontrol", "update", f"JobId={job_id}", *facts]] if facts else []
    if change.hold is not None:
        commands.append(["scontrol", "uhold" if change.hold else "release", str(job_id)])
    return commands
