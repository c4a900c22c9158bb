"""Tests the limits that are read from output as Slurm 22.05 prints it."""

from collections.abc import Sequence

import pytest

from Daddy.cluster.orchestrator.controller_types import SiteLimits
from Daddy.cluster.orchestrator.slurm_limits import describe_closed, maintenance_begins, read_site

REQUEST = {"partition": "gpu-linuxlab", "gres": "gpu:1", "cpus-per-task": 8}
CONFIG = (
    "AccountingStorageEnforce = associations,limits,qos\nSchedulerParameters     = bf_continue\n"
)
PARTITION = "PartitionName=gpu-linuxlab AllowGroups=ALL QoS={qos} DefaultTime=01:00:00 State=UP\n"
OWN = "engr-class-any|student||students|students|||||\n"
SHARED = "engr-class-any|||normal||||||\n"
QUALITY = "students||4|||||||\n"


class Answers:
    """Return a query function with these answers, by the command's first words."""

    def __init__(self, **changes: str | None) -> None:
        self.asked: list[str] = []
        self.texts = {
            "config": CONFIG,
            "partition": PARTITION.format(qos="N/A"),
            "own": OWN,
            "shared": SHARED,
            "user": "engr-class-any\n",
            "qos": QUALITY,
            **changes,
        }

    def __call__(self, argv: Sequence[str]) -> str | None:
        words = " ".join(argv)
        self.asked.append(words)
        for key, sign in (
            ("config", "show config"), ("partition", "show partition"), ("qos", "show qos"),
            ("own", "assoc user="), ("shared", "assoc account="), ("user", "show user"),
        ):  # fmt: skip
            if sign in words:
                return self.texts[key]
        raise AssertionError(words)


def site(**changes: str | None) -> SiteLimits:
    found, why = read_site(Answers(**changes), "student", REQUEST)
    assert why
    return found


def test_the_cap_of_the_qos_that_a_job_gets_is_read() -> None:
    found, why = read_site(Answers(), "student", REQUEST)
    assert found == SiteLimits(max_running=4, enforced=True)
    assert why == "MaxJobsPU of QOS students 4"


def test_the_smallest_of_all_limits_wins() -> None:
    found = site(
        own="engr-class-any|student||students|students|6|40|||\n",
        shared="engr-class-any|||normal||||30|20|\n",
        partition=PARTITION.format(qos="lab"),
        qos="students||4|12||||||\nlab||3|8||||||\nforeign||1|1||||||\n",
    )
    assert (found.max_running, found.max_submitted) == (3, 8)


def test_a_limit_of_gpus_is_a_limit_of_jobs() -> None:
    assert site(qos="students||||cpu=24,gres/gpu=4,mem=900G|||||\n").max_running == 3
    own = "engr-class-any|student||students|students|||||gres/gpu=2\n"
    assert site(own=own, qos="students|||||||||\n").max_running == 2


@pytest.mark.parametrize(
    ("asked", "jobs"),
    [
        ({"gres": "gpu:a100:2"}, 2),
        ({"gpus": "a100:2", "gres": "shard:9"}, 2),
        ({"gpus-per-node": "2"}, 4),
        ({"gres": "shard:9"}, None),
    ],
)
def test_gpus_are_counted_in_each_way_of_asking(asked: dict[str, str], jobs: int | None) -> None:
    answers = Answers(qos="students||||gres/gpu=8,gres/gpu:a100=4,gres/gpu:v100=2|||||\n")
    assert read_site(answers, "student", asked)[0].max_running == jobs


def test_limits_that_are_written_down_but_not_enforced_are_none() -> None:
    assert site(config="AccountingStorageEnforce = none\n") == SiteLimits()


def test_a_cap_that_stalls_the_partition_is_seen_with_and_without_accounting() -> None:
    stall = "SchedulerParameters = bf_continue,assoc_limit_stop\n"
    assert site(config=f"{CONFIG}{stall}").blocks_others
    assert site(config=stall).blocks_others


def test_an_account_that_is_not_charged_does_not_count() -> None:
    rows = OWN + "other|student||normal|normal|1||||\n"
    found, _ = read_site(Answers(own=rows), "student", {**REQUEST, "account": "engr-class-any"})
    assert found.max_running == 4


def test_an_association_for_another_partition_does_not_count() -> None:
    own = OWN + "engr-class-any|student|cpu|students|students|1||||\n"
    assert site(own=own).max_running == 4
    own = OWN + "engr-class-any|student|gpu-linuxlab|students|students|2||||\n"
    assert site(own=own).max_running == 2


@pytest.mark.parametrize(
    ("own", "quality"),
    [
        ("a|student||lab||||||\n", "lab"),
        ("a|student||lab,normal||||||\n", "normal"),
        ("", "normal"),
    ],
)
def test_a_job_that_names_no_qos_gets_the_only_one_or_slurms_own(own: str, quality: str) -> None:
    rows = "lab||3|||||||\nnormal||9|||||||\n"
    assert site(own=own, user="a\n", qos=rows).max_running == {"lab": 3, "normal": 9}[quality]


@pytest.mark.parametrize("silent", ["config", "own", "shared", "user", "qos", "partition"])
def test_what_a_site_hides_is_merely_not_known(silent: str) -> None:
    assert site(**{silent: None}).max_submitted is None


def test_a_site_that_hides_everything_leaves_nothing_known() -> None:
    found = site(own=None, shared=None, qos=None, user=None, partition=None)
    assert found == SiteLimits()


def test_a_site_is_asked_six_things_at_most() -> None:
    answers = Answers()
    read_site(answers, "student", REQUEST)
    assert len(answers.asked) <= 6


RESERVATION = (
    "ReservationName=mt StartTime=1795287908 EndTime=1795289708 Duration=00:30:00 Nodes=n[1-4] "
    "PartitionName=(null) Flags=MAINT,IGNORE_JOBS,SPEC_NODES,ALL_NODES TRES=cpu=32 Users=root "
    "State=INACTIVE"
)


def test_the_next_maintenance_that_is_not_over_counts() -> None:
    later = RESERVATION.replace("1795287908", "1795900000").replace("1795289708", "1795990000")
    both = f"{later}\n{RESERVATION}\n"
    assert maintenance_begins(both, "gpu-linuxlab", 1795280000.0) == 1795287908.0
    assert maintenance_begins(both, "gpu-linuxlab", 1795288000.0) == 1795287908.0
    assert maintenance_begins(both, "gpu-linuxlab", 1795289709.0) == 1795900000.0
    assert maintenance_begins("No reservations in the system\n", "gpu-linuxlab", 0.0) is None


def test_a_course_or_another_partitions_maintenance_is_no_concern() -> None:
    course = RESERVATION.replace("MAINT,", "")
    elsewhere = RESERVATION.replace("PartitionName=(null)", "PartitionName=cpu")
    assert maintenance_begins(f"{course}\n{elsewhere}", "gpu-linuxlab", 0.0) is None
    assert maintenance_begins(elsewhere, "cpu", 0.0) == 1795287908.0


OURS: dict[str, str | int] = {"partition": "gpu-linuxlab"}
TWO: dict[str, str | int] = {"partition": "gpu-linuxlab,big"}


@pytest.mark.parametrize(
    ("lines", "request_", "said"),
    [
        ("gpu-linuxlab*|up|idle", OURS, ""),
        ("gpu-linuxlab*|down|idle", OURS, "partition gpu-linuxlab is down"),
        ("gpu-linuxlab|inact|mixed", OURS, "partition gpu-linuxlab is inact"),
        ("gpu-linuxlab|drain|mixed", OURS, ""),  # its queued jobs start
        ("gpu-linuxlab|up|draining gpu-linuxlab|up|mixed", OURS, ""),
        (
            "gpu-linuxlab|up|draining gpu-linuxlab|up|drained* gpu-linuxlab|up|drained",
            OURS,
            "nodes of gpu-linuxlab: draining, drained",
        ),
        *(
            (f"gpu-linuxlab|up|{state}", OURS, f"nodes of gpu-linuxlab: {state}")
            for state in ("maint", "inval", "error", "down", "fail")
        ),
        ("gpu-linuxlab|up|maint", {**OURS, "reservation": "course"}, ""),
        ("gpu-linuxlab|down|idle", TWO, "partition gpu-linuxlab is down"),
        ("gpu-linuxlab|down|idle big|up|allocated", TWO, ""),
        (
            "gpu-linuxlab|down|idle big|down|idle other|up|idle",
            TWO,
            "partition gpu-linuxlab is down; partition big is down",
        ),
        ("gpu-linuxlab|up|idle* big*|up|drained", {}, "nodes of big: drained"),
        ("gpu-linuxlab|down|idle big*|up|idle~", {}, ""),
        ("", OURS, ""),
    ],
)
def test_partitions_are_closed_in_slurms_words_only_if_none_is_open(
    lines: str, request_: dict[str, str | int], said: str
) -> None:
    assert describe_closed(lines.replace(" ", "\n"), request_) == said
