"""What sinfo says, held against what a job asks for."""

from __future__ import annotations

from Daddy.cluster.orchestrator.commands.partitions import (
    booted_with,
    parse_partitions,
    partition_findings,
)
from Daddy.core.settings import Slurm

KNOWN = parse_partitions(
    """\
gpu-linuxlab|up|4:00:00|n1
gpu-linuxlab|up|4:00:00|n2
long|up|7-00:00:00|n3
broken|down|infinite|n4
no line of ours
"""
)


def findings(**wishes: object) -> list[str]:
    found = partition_findings(Slurm.model_validate(wishes), KNOWN)
    return [f"{one.message} | {one.fix}" for one in found]


def test_each_partition_is_known_once_with_its_limit_and_one_node() -> None:
    told = [(one.name, one.up, one.limit_s, one.node) for one in KNOWN]
    assert told == [
        ("gpu-linuxlab", True, 14_400, "n1"),
        ("long", True, 604_800, "n3"),
        ("broken", False, None, "n4"),
    ]


def test_a_partition_that_takes_the_job_is_no_finding() -> None:
    assert findings() == []
    assert findings(partition="long", time_limit="4-00:00:00") == []


def test_an_unknown_partition_is_answered_with_the_ones_there_are() -> None:
    (found,) = findings(partition="gpu-linuxlap")
    assert "there are: broken, gpu-linuxlab, long" in found
    assert "--partition gpu-linuxlab" in found


def test_a_limit_over_the_partition_s_own_would_wait_for_ever() -> None:
    (found,) = findings(time_limit="5:00:00")
    assert "over the 4:00:00" in found


def test_a_partition_that_is_down_is_said() -> None:
    (found,) = findings(partition="broken")
    assert "not up" in found


def test_nothing_is_concluded_from_a_listing_without_partitions() -> None:
    assert partition_findings(Slurm(), ()) == []


def test_a_node_that_booted_with_us_is_this_host() -> None:
    line = "NodeName=n1 Arch=x86_64 BootTime=1790000003 SlurmdStartTime=1790000100"
    assert booted_with(line, 1_790_000_000.0)
    assert not booted_with(line, 1_790_001_000.0)
    assert not booted_with("", 1_790_000_000.0)
