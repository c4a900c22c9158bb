"""``start``: shows all errors together, changes nothing twice, updates a live controller."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator import controller_lease
from Daddy.cluster.orchestrator.control_files import DesiredRun, read_intent, write_intent
from Daddy.cluster.orchestrator.controller_types import Mode
from Daddy.core.agreed_settings import agreed_settings, contract_to_pairs
from Daddy.core.atomic_files import write_json
from Daddy.core.clock import SystemClock
from Daddy.core.lease import Lease
from Daddy.core.load_config import config_to_json, load_config, shared_paths
from Daddy.weights.laptop import key_receiver
from tests.cluster.commands.conftest import Shim
from tests.cluster.conftest import Person, show_as_red, small_config, until
from tests.patience import PATIENCE_S
from tests.pokemon.lookalike import lookalike

CLOCK = SystemClock()
SLURM = {"controller": {"executor": "slurm"}}


def controlled(person: Person, mode: Mode, **changes: object) -> Lease:
    """Make this process the controller of the person's run."""
    facts = {"executor": "local", "release": "r", "game": "cartpole", "started_ts": 1.0}
    write_intent(person.run, DesiredRun(mode, 2, **{**facts, **changes}), 0.0)  # type: ignore[arg-type]
    lease = Lease.acquire(person.run.controller_lease, controller_lease.make_holder_record(CLOCK))
    assert lease is not None
    return lease


def configure(person: Person, **changes: dict[str, object]) -> None:
    """Let jobs live long and make no passes, unless the changes say otherwise."""
    changes["training"] = {"max_runtime_seconds": 60, **changes.get("training", {})}
    changes["controller"] = {"failover": False, **changes.get("controller", {})}
    person.config.write_text(json.dumps(small_config(person.run.root, **changes)))


def test_twice_is_once_and_the_controller_that_lives_gets_new_settings_and_a_name_as_label(
    person: Person,
) -> None:
    configure(person)
    first = person.run_controller("start")
    assert first.returncode == 0, first.stderr
    assert "disk: " in first.stdout
    assert "free by" in first.stdout
    assert "checkpoints" not in first.stdout, "the parts of the sum are for -v"
    assert re.search(r"a laptop joins by: SYNC_CLUSTER_USER=.* SYNC_REMOTE_DIR=/", first.stdout)
    before, pid = read_intent(person.run), person.controller
    until(lambda: person.training == 2)
    again = person.run_controller("start")
    assert again.returncode == 0
    assert f"controller: pid {pid} on" in again.stdout
    assert "nothing was changed" in again.stdout
    assert read_intent(person.run) == before
    mark = json.loads(person.run.identity.read_text())["run_id"]
    configure(person, training={"entropy": 0.02})
    settings = json.loads(person.config.read_text())
    person.config.write_text(json.dumps({**settings, "run_name": "other"}))
    changed = person.run_controller("start")
    assert changed.returncode == 0, changed.stderr
    after = read_intent(person.run)
    assert before is not None
    assert after is not None
    assert after.release != before.release
    assert f"release {after.release}: one slot tries it" in changed.stdout
    assert (person.run.releases / after.release / "config.json").is_file()
    label = f"other is a label: in the queue the run's jobs keep the name {mark}"
    assert label in changed.stdout
    assert json.loads(person.run.identity.read_text())["run_id"] == mark
    assert person.controller == pid
    assert len({slot["job_id"] for slot in person.status()["slots"]}) == 2


def test_it_writes_the_receiver_that_key_lines_name_also_beside_a_controller_that_lives(
    person: Person,
) -> None:
    path = Path(person.env["HOME"], ".config", "daddy", "receiver.py")
    lease = controlled(person, Mode.RUN)
    said = person.run_controller("start")
    lease.release("the test ends")
    assert said.returncode == 0, said.stderr
    assert path.stat().st_mode & 0o777 == 0o500
    answer = subprocess.run(
        [sys.executable, "-I", str(path), "push", str(person.config.parent), "anna"],
        env={"SSH_ORIGINAL_COMMAND": key_receiver.NAME},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
    )
    assert answer.stdout == f"{key_receiver.MARK}push anna {person.config.parent}\n"


def test_inside_a_job_a_daemon_is_refused_without_yes_and_starts_with_it_without_a_receiver(
    person: Person,
) -> None:
    Path(person.env["HOME"], ".config").write_text("no folder")
    configure(person, slurm={"max_running": 1})
    person.env |= {"SLURM_JOB_ID": "217", "SLURMD_NODENAME": "n3"}
    refused = person.run_controller("start")
    assert refused.returncode == 2
    assert "this shell is in Slurm job 217 on n3: the controller would end" in refused.stderr
    assert not person.run.intent.exists()
    begun = person.run_controller("start", "--yes", "-v")
    assert begun.returncode == 0, begun.stderr
    assert "it ends with Slurm job 217" in begun.stdout
    assert "survives" not in begun.stdout
    assert "checkpoints" in begun.stdout
    assert "receiver.py cannot be written (" in begun.stdout


def test_a_squeue_that_is_too_old_is_found_at_the_start(person: Person, site: Shim) -> None:
    site("scontrol", f"echo 'NodeName=n1 BootTime={int(_booted())}'")
    site("squeue", "echo \"squeue: unrecognized option '--me'\" >&2; exit 1")
    configure(person, **SLURM)
    said = person.run_controller("start")
    assert said.returncode == 4
    assert "the controller could not read the queue: squeue: unrecognized option" in said.stderr
    assert "Daddy needs Slurm 20.02 or newer" in said.stderr
    assert not person.run.intent.exists()


def test_a_controller_of_the_release_before_gets_no_new_name(person: Person) -> None:
    settings = load_config(person.config).model_copy(update={"run_name": "before"})
    write_json(person.run.release("old1").config, settings.model_dump(mode="json"))
    facts = {"executor": "local", "release": "old1", "game": "cartpole"}
    write_intent(person.run, DesiredRun(Mode.RUN, 2, **facts), 0.0)
    holder = controller_lease.make_holder_record(CLOCK) | {"release": "old1"}
    del holder["keeps_run_id"]
    lease = Lease.acquire(person.run.controller_lease, holder)
    assert lease is not None
    refused = person.run_controller("start")
    lease.release("test")
    write_intent(person.run, DesiredRun(Mode.STOPPED, 2, **facts), 0.0)
    assert refused.returncode == 5
    assert "controller is of the release before and knows the run as 'before'" in refused.stderr
    assert "type `run_controller stop`, then start" in refused.stderr


def test_during_a_drain_it_is_refused_with_what_to_do(person: Person) -> None:
    lease = controlled(person, Mode.DRAIN)
    said = person.run_controller("start")
    lease.release("test")
    assert said.returncode == 5
    assert "the run is being stopped" in said.stderr
    assert "wait until `run_controller status` says stopped" in said.stderr
    intent = read_intent(person.run)
    assert intent is not None
    assert intent.mode is Mode.DRAIN
    write_intent(person.run, DesiredRun(Mode.STOPPED, 2, "local", "r", "cartpole"), 0.0)


def test_a_paused_run_goes_on_with_start_and_with_nothing_else(person: Person) -> None:
    lease = controlled(person, Mode.PAUSED, reason="an administrator holds job 17")
    kept = person.run_controller("ensure")
    said = person.run_controller("start")
    intent = read_intent(person.run)
    lease.release("test")
    assert "paused until you type start (an administrator holds job 17)" in kept.stdout
    assert said.returncode == 0, said.stderr
    assert "the pause is over (an administrator holds job 17)" in said.stdout
    assert intent is not None
    assert intent.mode is Mode.RUN
    assert intent.started_ts > 1.0
    write_intent(person.run, DesiredRun(Mode.STOPPED, 2, "local", "r", "cartpole"), 0.0)


@pytest.mark.parametrize(
    ("argv", "changes", "why"),
    [
        (["--foreground"], {}, "it does not run in this terminal"),
        (["--no-daemon"], {}, "it is a daemon, and --no-daemon was given"),
        ([], {"executor": "slurm"}, "it runs jobs on slurm, not on local"),
    ],
)
def test_a_wish_that_the_living_controller_cannot_carry_out_is_exit_five(
    person: Person, argv: list[str], changes: dict[str, str], why: str
) -> None:
    lease = controlled(person, Mode.RUN, **changes)
    said = person.run_controller("start", *argv)
    lease.release("test")
    assert said.returncode == 5
    assert why in said.stderr
    assert f"pid {os.getpid()}" in said.stderr
    write_intent(person.run, DesiredRun(Mode.STOPPED, 2, "local", "r", "cartpole"), 0.0)


def test_an_unchanged_start_forgives_failures_that_hold_slots_or_exclude_nodes(
    person: Person,
) -> None:
    lease = controlled(person, Mode.RUN)
    assert person.run_controller("start").returncode == 0  # the release of this checkout and config
    assert "nothing was changed" in person.run_controller("start").stdout
    fields = ("mode", "queue", "slots", "waiting", "reasons", "last", "daemon", "used_s")
    for held in ({"breaker": [{"slot": 1, "reason": "3 failures in a row"}]}, {"excluded": ["n1"]}):
        before = read_intent(person.run)
        known = {**dict.fromkeys(fields), "v": 2, "ts": CLOCK.now(), **held}
        person.run.status.write_text(json.dumps(known))
        said = person.run_controller("start")
        after = read_intent(person.run)
        assert "failures so far are forgiven" in said.stdout
        assert before is not None
        assert after is not None
        assert after.started_ts > before.started_ts
        assert after.release == before.release
    lease.release("test")
    write_intent(person.run, DesiredRun(Mode.STOPPED, 2, "local", "r", "cartpole"), 0.0)


def test_a_damaged_intent_is_written_anew(person: Person) -> None:
    person.run.intent.parent.mkdir(parents=True)
    person.run.intent.write_text('{"mode": "ru')
    told = person.run_controller("status")
    assert told.returncode == 20
    assert "intent.json" in told.stdout
    stopped = person.run_controller("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert "`stop` writes the intent anew" in stopped.stdout
    intent = read_intent(person.run)
    assert intent is not None
    assert intent.mode is Mode.STOPPED


def test_folders_of_a_path_of_seventy_kilobytes_that_are_not_kept_are_named(
    person: Person, site: Shim
) -> None:
    configure(person, **SLURM)
    person.env["PATH"] += "".join(f":/opt/software/{number:05}/bin" for number in range(2800))
    done = person.run_controller("start", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "not kept for cron: PATH after its first" in done.stdout


def test_everything_that_is_wrong_is_said_at_once(person: Person, site: Shim) -> None:
    site("sinfo", "echo 'gpu|up|2:00:00|n1'")
    changes = {
        "training": {"workload": "pokemon_red", "rom": "/nowhere/PokemonRed.gb"},
        "slurm": {"partition": "gpu-linuxlab"},
        "controller": {"executor": "slurm"},
    }
    configure(person, **changes)
    said = person.run_controller("start")
    assert said.returncode == 7
    # the third: the nodes do not see /tmp; a checkout there adds its Python as the fourth
    assert re.search(r"[34] errors prevent a start", said.stderr)
    assert "cannot read the ROM /nowhere" in said.stderr
    assert "there is no partition gpu-linuxlab; Slurm lists: gpu" in said.stderr
    assert "--partition gpu" in said.stderr
    assert not person.run.intent.exists()


def test_a_game_nobody_knows_is_refused_before_a_job_waits_for_it(person: Person) -> None:
    wrong = person.config.with_name("PokemonRed.gb")
    wrong.write_bytes(bytes(32 * 1024))
    configure(person, training={"workload": "pokemon_red", "rom": str(wrong)})
    said = person.run_controller("start")
    assert said.returncode == 7
    assert "is not a game we know" in said.stderr
    assert "allow_unknown_rom" in said.stderr
    assert not person.run.root.exists()


def test_a_modified_red_is_played_as_red_and_warned_of(person: Person) -> None:
    patched = person.config.with_name("patched.gb")
    patched.write_bytes(lookalike())
    game = {"workload": "pokemon_red", "rom": str(patched), "allow_unknown_rom": True}
    configure(person, training=game)
    said = person.run_controller("start", "--dry-run")
    assert said.returncode == 0, said.stderr
    assert "would play Pokémon Red, modified (" in said.stdout
    assert "warning: playing a modified Pokémon Red" in said.stdout
    assert "UserWarning" not in said.stderr


def test_local_jobs_that_would_refuse_their_device_are_not_started(person: Person) -> None:
    absent = "cuda" if sys.platform == "darwin" else "mps"
    configure(person, training={"device": absent})
    said = person.run_controller("start")
    assert said.returncode == 3, said.stdout
    assert f"checking that torch can use {absent}" in said.stdout
    assert f"error: training.device is '{absent}', but this" in said.stderr
    assert "what to do: " in said.stderr
    assert not person.run.intent.exists()


@pytest.mark.parametrize("kept", ["{", '{"slurm": {"qos": "a\\nb"}}'])
def test_settings_of_the_last_start_that_cannot_be_read_prevent_none(
    person: Person, site: Shim, kept: str
) -> None:
    person.run.root.mkdir(parents=True)
    person.run.config.write_text(kept)
    configure(person, **SLURM)
    said = person.run_controller("start", "--dry-run")
    assert said.returncode == 0, said.stderr


@pytest.mark.parametrize(
    ("given", "options", "says"),
    [
        ({"learning_rate": 10}, [], "training.learning_rate 10 is above 1"),
        (
            {"horizon": 2, "num_envs": 4},
            ["--dry-run"],
            "training.batch_size 64 is more than a rollout of 8 steps",
        ),
    ],
)
def test_hyperparameters_that_jobs_would_refuse_are_not_started(
    person: Person, given: dict[str, object], options: list[str], says: str
) -> None:
    configure(person, training=given)
    said = person.run_controller("start", *options)
    assert said.returncode == 3, said.stdout
    assert f"error: {says}" in said.stderr
    assert not person.run.intent.exists()


def test_the_real_game_on_cuda_takes_the_tuned_recipe_and_a_begun_run_keeps_its_own(
    person: Person,
) -> None:
    person.config = person.checkout / "Daddy" / "cluster" / "cluster_config.json"
    person.env |= {"DADDY_RUN_DIR": str(person.run.root)}
    show_as_red(person, lookalike())
    typed = ("start", "--dry-run", "--executor", "local")
    said = person.run_controller(*typed)
    assert said.returncode == 0, said.stderr
    assert re.search(r"training.num_envs +8 +96\n", said.stdout)
    assert re.search(r"training.total_steps +5,000,000 +0 \(no end\)\n", said.stdout)
    person.env["DADDY_TRAINING__TOTAL_STEPS"] = "5000000"
    lease = Lease.acquire(person.run.slot(0).lease, {"host": "n1"})
    assert lease is not None
    lease.beat({"steps_per_second": 1_250.0})
    for slot, absurd in ((1, 5e-324), (2, 1e300)):
        other = Lease.acquire(person.run.slot(slot).lease, {"host": "n1"})
        assert other is not None
        other.beat({"steps_per_second": absurd})
    said = person.run_controller(*typed)
    assert re.search(r"total_steps +5,000,000 +0 \(no end\) +stays: you set it", said.stdout)
    assert "last 16 min at 5,000 steps/s" in said.stdout
    begun = load_config(None, {"run_dir": str(person.run.root)})
    person.run.config.write_bytes(config_to_json(begun))
    write_json(shared_paths(begun).run, {"terms": contract_to_pairs(agreed_settings(begun))})
    said = person.run_controller(*typed)
    assert re.search(r"training.num_envs +8 +96 +stays: this run began with it", said.stdout)
    person.env["DADDY_TRAINING__LSTM_SIZE"] = "512"
    for terms in (contract_to_pairs(agreed_settings(begun)), ()):  # (): an imported run's card
        write_json(shared_paths(begun).run, {"terms": terms})
        said = person.run_controller(*typed)
        assert said.returncode == 3
        assert "training.lstm_size 128 there, 512 here" in said.stderr


def test_a_limit_over_the_partition_s_is_refused_before_anything_is_submitted(
    person: Person, site: Shim, tmp_path: Path
) -> None:
    site("sinfo", "echo 'gpu-linuxlab|up|0:00:10|n1'")
    configure(person, **SLURM)
    said = person.run_controller("start")
    assert said.returncode == 4
    assert "over the 0:00:10 that partition gpu-linuxlab allows" in said.stderr
    assert "sbatch" not in (tmp_path / "asked").read_text()


def test_what_slurm_says_of_the_script_is_told(person: Person, site: Shim) -> None:
    site("sbatch", "echo 'sbatch: error: Invalid account or account/partition' >&2; exit 1")
    site("scontrol", f"echo 'NodeName=n1 BootTime={int(_booted())}'")
    configure(person, **SLURM)
    said = person.run_controller("start")
    assert said.returncode == 4
    assert "Invalid account" in said.stderr
    assert not person.run.intent.exists()


def _booted() -> float:
    line = next(text for text in Path("/proc/stat").read_text().splitlines() if "btime" in text)
    return float(line.split()[1])


def test_a_run_directory_that_the_nodes_cannot_see_is_refused(person: Person, site: Shim) -> None:
    configure(person, **SLURM)  # under /tmp, and the node booted at another time than we did
    said = person.run_controller("start")
    assert said.returncode == 9
    assert "cannot be seen from the nodes" in said.stderr
    assert str(person.run.root) in said.stderr
    assert not person.run.root.exists() or not person.run.intent.exists()


def test_a_slurm_that_cannot_be_asked_is_said_with_its_own_words(
    person: Person, site: Shim
) -> None:
    site("sinfo", "echo 'slurm_load_partitions: Unable to contact slurm controller' >&2; exit 1")
    configure(person, **SLURM)
    said = person.run_controller("start")
    assert said.returncode == 4
    assert "Unable to contact slurm controller" in said.stderr
    assert "cannot be seen" not in said.stderr, "nobody knows where the nodes are"


def test_without_a_daemon_a_pass_is_made_and_nobody_stays(person: Person) -> None:
    configure(person, slurm={"max_running": 1}, controller={"failover": True})
    said = person.run_controller("start", "--no-daemon")
    assert said.returncode == 0, said.stderr
    assert "no daemon" in said.stdout
    intent = read_intent(person.run)
    assert intent is not None
    assert not intent.daemon
    assert person.ledger("intent")
    until(lambda: person.training == 1)
    assert person.run_controller("once").returncode in (0, 5)  # a job may be making one just now
    until(lambda: person.status_in_process["exit_code"] == 0)
    stopped = person.run_controller("stop")
    assert stopped.returncode == 0, stopped.stderr
    assert person.status()["queue"]["running"] == 0
