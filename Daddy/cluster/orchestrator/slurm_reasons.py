"""Pure: why a job waits, in Slurm's words and in ours. One table, the first line that fits wins.

Words that are in no line mean patience. Limits of a group that the person shares (``QOSGrp…``,
``…PerAccount``) mean patience too: that others use them up is no cap of ours. ``AssocGrp…`` is
taken for the person's own, because that is how sites write a cap into a user's association; should
it be the class's, the first successor that starts too early corrects us. Words: squeue(1) and
job_reason_codes, Slurm 22.05 to 24.05.
"""

from __future__ import annotations

import re

from Daddy.cluster.orchestrator.records import Waits

_LINES = (
    (r"JobHeldAdmin", Waits.ADMIN),
    (r"ReqNodeNotAvail.*maintenance|Reservation\b|.*Reserved for maintenance", Waits.RESERVATION),
    (r"ReservationDeleted", Waits.NEVER),
    # What one job may be or have: no waiting makes it smaller.
    (r"(QOS|Assoc)\w*(PerJob|PerNode)\w*", Waits.NEVER),
    (r"(QOS|Assoc)Min\w+", Waits.NEVER),
    (r"AssocMaxWall\w*|AssociationTimeLimit|QOSTimeLimit", Waits.NEVER),
    (r"Partition(TimeLimit|NodeLimit|Config)", Waits.NEVER),
    (r"BadConstraints|DependencyNeverSatisfied|DeadLine|Deadline", Waits.NEVER),
    (r"(Invalid)(Account|QOS)|(Account|QOS)NotAllowed", Waits.NEVER),
    (r"JobHoldMaxRequeue|.*requeued (in )?held.*|JobLaunchFailure", Waits.NEVER),
    # Used up for good, until somebody grants more; running minutes come back by themselves.
    (r"(Assoc|QOS)Grp\w*RunMinutes\w*", Waits.TURN),
    (r"(Assoc|QOS)Grp\w*Minutes\w*|(Assoc|QOS)Grp\w*Wall\w*|QOSUsageThreshold", Waits.BUDGET),
    (r"QOS(Max)?\w*PerAccount\w*|QOSGrp\w+", Waits.TURN),
    (r"(QOS|Assoc)Max(Jobs|\w+PerUser)\w*|AssocMaxJobs\w*", Waits.CAP),
    (r"AssocGrp(Jobs|Cpu|CPU|GRES|Node|Mem|Billing)\w*", Waits.CAP),
    (r"(Association|QOS)(Job|Resource)Limit", Waits.CAP),
)
_TABLE = tuple((re.compile(words), waits) for words, waits in _LINES)


def waits_for(reason: str) -> Waits:
    """What a pending job waits for, from the reason that squeue prints (details may follow it)."""
    for words, waits in _TABLE:
        match = words.match(reason)
        if match and not reason[match.end() : match.end() + 1].isalnum():
            return waits
    return Waits.TURN
