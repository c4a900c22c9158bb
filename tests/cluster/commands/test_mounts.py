"""Where a run may live, and where it may not."""

from __future__ import annotations

import pytest

from Daddy.cluster.orchestrator.commands.mounts import (
    may_be_private,
    mount_of,
    parse_mounts,
    place_findings,
)

MOUNTS = parse_mounts(
    """\
/dev/sda1 / ext4 rw,relatime 0 0
tmpfs /dev/shm tmpfs rw 0 0
filer:/shared /shared nfs4 rw,vers=4.2,sec=sys 0 0
filer:/safe /shared/safe nfs4 rw,vers=4.2,sec=krb5p 0 0
AFS /afs afs rw 0 0
filer:/two\\040words /two\\040words nfs rw 0 0
garbled
"""
)


def findings(path: str, *, one_host: bool = False) -> list[str]:
    found = place_findings("the run directory", path, MOUNTS, one_host=one_host)
    return [f"{one.message} | {one.fix}" for one in found]


def test_a_path_lies_on_the_longest_mount_point_above_it() -> None:
    for path, point in (
        ("/shared/ada/run", "/shared"),
        ("/shared/safe/run", "/shared/safe"),
        ("/sharedness/run", "/"),
        ("/two words/run", "/two words"),
    ):
        mount = mount_of(path, MOUNTS)
        assert mount is not None
        assert mount.point == point


def test_shared_storage_without_tickets_is_fine() -> None:
    assert findings("/shared/ada/run") == []


@pytest.mark.parametrize(
    ("path", "why"), [("/shared/safe/run", "sec=krb5p"), ("/afs/cell/ada/run", "afs")]
)
def test_a_run_directory_that_needs_an_expiring_ticket_is_refused_with_the_reason(
    path: str, why: str
) -> None:
    (found,) = findings(path, one_host=True)
    assert "ticket that expires" in found
    assert why in found
    assert path in found


@pytest.mark.parametrize("path", ["/dev/shm/run", "/tmp/run", "/var/tmp/run"])
def test_a_place_that_only_this_host_sees_is_refused_on_a_cluster(path: str) -> None:
    (found,) = findings(path)
    assert "cannot be seen from the nodes" in found
    assert findings(path, one_host=True) == []


def test_nothing_is_said_where_nothing_is_known() -> None:
    assert place_findings("the run directory", "/x", (), one_host=False) == []


def test_a_disk_of_this_host_is_a_doubt_and_no_refusal() -> None:
    assert findings("/opt/run") == []
    assert "ext4 at /" in may_be_private("/opt/run", MOUNTS)
    assert may_be_private("/shared/ada/run", MOUNTS) == ""
