"""Why jobs wait: every kind of reason by examples that Slurm prints."""

from __future__ import annotations

import pytest

from Daddy.cluster.orchestrator.records import Waits
from Daddy.cluster.orchestrator.slurm_reasons import waits_for

TABLE = {
    Waits.TURN: (
        "", "Priority", "Resources", "BeginTime", "Dependency", "JobHeldUser", "Licenses",
        "ReqNodeNotAvail, UnavailableNodes:n[1-4]",
        "ReqNodeNotAvail, May be reserved for other job",
        "QOSGrpJobsLimit", "QOSGrpGRES", "QOSMaxJobsPerAccountLimit", "QOSMaxGRESPerAccount",
        "AssocGrpCPURunMinutesLimit", "QOSGrpGRESRunMinutes", "PartitionDown", "NodeDown",
        "SomethingOfNextYear",
    ),
    Waits.CAP: (
        "QOSMaxJobsPerUserLimit", "AssocMaxJobsLimit", "QOSMaxGRESPerUser", "QOSMaxCpuPerUserLimit",
        "QOSMaxMemoryPerUser", "AssocGrpGRES", "AssocGrpJobsLimit", "AssocGrpCpuLimit",
        "AssociationJobLimit", "QOSJobLimit",
    ),
    Waits.BUDGET: (
        "AssocGrpCPUMinutesLimit", "AssocGrpGRESMinutes", "AssocGrpBillingMinutes",
        "QOSGrpCPUMinutesLimit", "QOSGrpGRESMinutes", "AssocGrpWallLimit", "QOSUsageThreshold",
    ),
    Waits.RESERVATION: (
        "ReqNodeNotAvail, Reserved for maintenance", "Reservation",
        "ReqNodeNotAvail(Reserved for maintenance)",
    ),
    Waits.ADMIN: ("JobHeldAdmin",),
    Waits.NEVER: (
        "PartitionTimeLimit", "QOSMaxWallDurationPerJobLimit", "AssocMaxWallDurationPerJobLimit",
        "QOSMaxGRESPerJob", "QOSMaxCpuPerNode", "QOSMinGRES", "AssocMaxCpuPerJobLimit",
        "InvalidAccount", "InvalidQOS", "AccountNotAllowed", "BadConstraints",
        "DependencyNeverSatisfied", "ReservationDeleted", "launch failed requeued held",
        "job requeued in held state", "JobHoldMaxRequeue",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "waits"), [(reason, waits) for waits, reasons in TABLE.items() for reason in reasons]
)
def test_every_reason_has_its_kind(reason: str, waits: Waits) -> None:
    assert waits_for(reason) is waits
