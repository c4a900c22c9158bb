"""Files that the release before (commit 3480ff2) wrote are read and continued by today's programs.

`release_before.tar.xz` is what its own programs left of a run on the local scheduler: CartPole, two
slots, `vector_backend: threads`, ended by `stop` after 32 versions. Beside the run lie a state of
the free cartridge's environment, after 48 steps, and a laptop's profile and `sync.json`. Left out
are copies of the code, `queue/`, `logs/`, `events/`, all but one checkpoint and one blob.
"""

import json
import os
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.control_files import read_identity, read_intent
from Daddy.cluster.orchestrator.controller_types import JobOutcome, Mode
from Daddy.cluster.orchestrator.ledger_file import read_ledger
from Daddy.core.clock import SystemClock
from Daddy.core.lease import read_lease
from Daddy.core.load_config import load_config, load_release_config
from Daddy.core.run_paths import RunPaths
from Daddy.core.saved_cluster import read_saved_cluster, saved_login, tunnel_options
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.core.slot_lease import claim_slot
from Daddy.hardware.machine_profile import load_profile
from Daddy.learning.checkpoint import load_newest
from Daddy.weights import log, status
from Daddy.weights.commit_history import read_records
from Daddy.weights.store.heartbeats import list_processes, read_heartbeat
from Daddy.weights.store.rebuild_version import newest_state
from Daddy.weights.store.weight_store import Store
from Daddy.workloads import WORKLOADS
from tests.cluster.conftest import ROOT, Person, config_of, until

ARCHIVE = Path(__file__).with_name("release_before.tar.xz")
HERE = b"@HERE@"
"""Stands in the archive for the folder in which the run lay."""
NEWEST, STEPS, CHECKPOINT_STEP, LAST_TERM = 32, 8064, 3904, 3


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """Unpack what the release before wrote, and name its folder in it."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path)
    for path in tmp_path.rglob("*.json"):
        path.write_bytes(path.read_bytes().replace(HERE, os.fsencode(tmp_path)))
    return tmp_path


@pytest.fixture
def run(before: Path) -> RunPaths:
    return RunPaths(before / "run")


@pytest.fixture
def shared(run: RunPaths) -> SharedPaths:
    return SharedPaths(run.shared_weights)


@pytest.fixture
def person(before: Path, run: RunPaths) -> Iterator[Person]:
    """Yield the run's owner, with this checkout and the file of before; stop the run afterwards."""
    file = before / "run.json"
    config = json.loads(file.read_text())
    config["training"]["max_runtime_seconds"] = 240  # its jobs lasted 25 s
    config["slurm"]["time_limit"] = "0:05:00"
    file.write_text(json.dumps(config))
    env = {key: text for key, text in os.environ.items() if not key.startswith(("SLURM", "DADDY"))}
    owner = Person(ROOT, file, run, {**env, "HOME": str(before), "PYTHONPATH": str(ROOT)})
    yield owner
    stopped = owner.run_controller("stop", "--now")
    assert stopped.returncode == 0, stopped.stderr


def told(person: Person, state: str) -> list[dict[str, object]]:
    """Return the data of the learners' events of this state."""
    lines = (line for path in person.run.events.glob("learner-slot-*") for line in path.open())
    data = (json.loads(line)["data"] for line in lines if line.endswith("\n"))
    return [facts for facts in data if facts.get("state") == state]


def test_start_goes_on_from_the_checkpoint_and_the_newest_version(person: Person) -> None:
    measured = (person.run.root / "backend.json").read_bytes()
    seen = person.run_controller("status")
    assert seen.returncode == 0, seen.stderr
    assert "the run was stopped at" in seen.stdout
    assert "8,064" in seen.stdout
    started = person.run_controller("start", "--ddp-world-size", "1")
    assert started.returncode == 0, started.stderr
    assert "training.vector_backend 'threads' is read as 'processes'" in started.stderr
    assert "no effect: training.torch_threads" in started.stderr
    shared = SharedPaths(person.run.shared_weights)
    until(shared.version(NEWEST + 1).exists, 120)
    resumed, *_ = told(person, "resumed")
    assert (resumed["checkpoint_step"], resumed["refused"]) == (CHECKPOINT_STEP, [])
    adopted, *_ = told(person, "adopted")
    assert adopted["version"] == NEWEST
    versions, flaws = read_records(shared)
    assert flaws == {}
    assert versions[NEWEST + 1].fleet_steps > STEPS
    assert read_identity(person.run) is not None
    assert (person.run.root / "backend.json").read_bytes() == measured


def test_the_configuration_is_read_with_one_warning_and_a_release_in_silence(
    before: Path, run: RunPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    config = load_config(before / "run.json", begins=True)
    assert (config.training.vector_backend, config.collaboration.rule) == ("processes", "delta")
    assert capsys.readouterr().err.count("warning: ") == 1
    (frozen,) = run.releases.iterdir()
    assert load_release_config(frozen / "config.json").training.vector_backend == "processes"
    assert capsys.readouterr().err == ""


def test_the_intent_and_the_ledger_are_read_in_full(run: RunPaths) -> None:
    intent = read_intent(run)
    assert intent is not None
    assert (intent.mode, intent.slots, intent.environment) == (Mode.STOPPED, 2, {})
    assert intent.stopped_slots == ()
    ledger = read_ledger(run.ledger)
    assert [attempt.job_id for attempt in ledger.attempts] == list(range(1, 11))
    assert ledger.live == ()
    ended = {attempt.outcome for attempt in ledger.attempts}
    assert ended == {JobOutcome.DRAINED, JobOutcome.CANCELLED}
    assert ledger.proven == (intent.release,)
    assert ledger.used_s > 60.0


def test_a_slots_next_term_follows_the_terms_of_before(run: RunPaths) -> None:
    view = read_lease(run.slot(0).lease)
    assert view is not None
    assert view.ended == "wall time" if view.term == LAST_TERM else "signal SIGUSR1"
    slot = claim_slot(run, [0], {"token": "0123456789ab", "job_id": "11"}, SystemClock(), 0.0)
    assert slot.term == view.term + 1
    slot.release("test")


def test_every_commit_record_and_the_newest_blob_are_read(
    shared: SharedPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    versions, flaws = read_records(shared)
    assert flaws == {}
    assert [record.version for record in versions] == list(range(NEWEST + 1))
    assert versions[-1].contributors == {"slot-0": CHECKPOINT_STEP, "slot-1": 4160}
    record, state = newest_state(Store(shared), NEWEST, 1)
    assert (record.version, "encoder.layers.0.weight" in state) == (NEWEST, True)
    status.main([str(shared.root), "--json"])
    seen = json.loads(capsys.readouterr().out)
    assert (seen["version"], seen["verified"]) == (NEWEST, True)
    assert seen["flaws"] == ["7 of 8 states are missing"], "the archive leaves them out"
    assert log.main([str(shared.root), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["version"]: line["fleet_steps"] for line in lines}[NEWEST] == STEPS


def test_heartbeats_and_the_laptops_head_are_read(shared: SharedPaths) -> None:
    store = Store(shared)
    processes = list_processes(store)
    assert {process.peer for process in processes} == {"slot-0", "slot-1"}
    assert all(read_heartbeat(process) for process in processes)
    head = store.keyframe()
    assert head is not None
    assert (head.version, head.fleet_steps, head.accepts) == (NEWEST, STEPS, ("int8",))


def test_a_checkpoint_verifies_and_has_what_a_learner_restores(run: RunPaths) -> None:
    loaded = load_newest(run.slot(0).checkpoints)
    assert loaded is not None
    checkpoint = loaded.checkpoint
    assert (checkpoint.term, checkpoint.step, loaded.refused) == (3, CHECKPOINT_STEP, ())
    assert checkpoint.facts["num_envs"] == 2
    assert {"optimizer.mean", "environment.1", "exchange"} <= set(checkpoint.tensors)


def test_an_environments_state_goes_on_in_the_game(before: Path, tmp_path: Path) -> None:
    config = config_of(tmp_path, training={"cartridge": True, "num_envs": 1, "device": "cpu"})
    env = WORKLOADS["pokemon_red"].make_env(config)().unwrapped
    state = (before / "environment.state").read_bytes()
    env.load_state(state)  # type: ignore[attr-defined]
    assert env.save_state() == state  # type: ignore[attr-defined]
    env.step(4)
    env.close()


def test_a_laptops_profile_and_login_are_read(before: Path) -> None:
    laptop = before / "laptop" / "daddy"
    assert "pufferlib" in (laptop / "profiles" / "annas-mac.json").read_text()
    profile = load_profile(laptop / "profiles", "annas-mac")
    assert profile is not None
    assert (profile.envs, profile.workload) == (8, "cartpole")
    saved = read_saved_cluster(laptop / "sync.json")
    assert (saved_login(saved), saved["peer"]) == ("anna@login.example.edu", "anna")
    opened = tunnel_options(saved, Path("/home/anna"))
    assert opened == "-N -i ~/.config/daddy/keys/tunnel -o IdentitiesOnly=yes -p 2222 "


def test_every_test_that_the_table_names_exists() -> None:
    rows = (ROOT / "docs" / "release-before.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", rows)
    assert len(named) >= rows.count("\n| ") - 2
    missing = [name for file, name in named if f"def {name}(" not in (ROOT / file).read_text()]
    assert missing == []
