"""Between two passes: what changed is seen, what did not change is not read again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator import glance
from Daddy.cluster.orchestrator.glance import Glance
from Daddy.cluster.orchestrator.intent import Intent, write_intent
from Daddy.cluster.orchestrator.records import Mode
from Daddy.core.errors import FileError
from Daddy.core.lease import Lease, standing
from Daddy.core.paths import RunPaths


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    paths = RunPaths(tmp_path)
    write_intent(paths, Intent(Mode.RUN, 2, "local", "r", "cartpole"), 0.0)
    return paths


def test_a_lease_that_is_claimed_ended_and_claimed_again_is_seen_each_time(run: RunPaths) -> None:
    look, folder = Glance(run), run.slot(1).lease
    seen = [look(2)]
    for _ in range(2):
        lease = Lease.claim(folder, {})
        assert lease is not None
        seen.append(look(2))
        lease.release("exit 10")
        seen.append(look(2))
    assert [one[2] for one in seen] == [(0, False), (1, False), (1, True), (2, False), (2, True)]
    assert {one[1] for one in seen} == {(0, False)}


def test_an_intent_that_is_written_anew_damaged_or_gone_is_seen(run: RunPaths) -> None:
    look = Glance(run)
    before = look(0)
    write_intent(run, Intent(Mode.DRAIN, 2, "local", "r", "cartpole"), 0.0)
    assert look(0) != before
    run.intent.write_text('{"mode": ')
    with pytest.raises(FileError):
        look(0)
    run.intent.unlink()
    assert look(0) == (None,)


def test_beats_alone_change_nothing_and_what_stands_still_is_not_read_again(
    run: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    monkeypatch.setattr(glance, "standing", lambda path: read.append(path) or standing(path))
    lease = Lease.claim(run.slot(0).lease, {})
    assert lease is not None
    look = Glance(run)
    first = look(1)
    assert [look(1) for _ in range(50)] == [first] * 50
    assert len(read) == 2, "once more, for what came within the same tick"
    lease.beat()
    assert [look(1) for _ in range(50)] == [first] * 50
    assert len(read) == 4


def test_a_goodbye_within_the_same_tick_is_seen_at_the_next_look(run: RunPaths) -> None:
    lease, folder = Lease.claim(run.slot(0).lease, {}), run.slot(0).lease
    assert lease is not None
    look, stamp = Glance(run), folder.stat()
    assert look(1)[1] == (1, False)
    lease.release("exit 10")
    os.utime(folder, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert look(1)[1] == (1, True)
