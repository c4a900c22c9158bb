"""What nobody needs any more, and what must stay whatever happens."""

from __future__ import annotations

from Daddy.cluster.orchestrator.commands.leftovers import DAY_S, InUse, Thing, leftovers

NOW = 100 * DAY_S
USE = InUse(
    releases=frozenset({"wanted", "proven"}),
    jobs=frozenset({"17"}),
    attempts=frozenset({"3"}),
    keep_checkpoints=2,
)


def going(*paths: str, age_days: float = 30.0) -> list[str]:
    things = [Thing(path, 10, NOW - age_days * DAY_S) for path in paths]
    return [one.thing.path for one in leftovers(things, USE, NOW, 7.0)]


def checkpoint(number: int, slot: int = 0) -> list[str]:
    name = f"slots/{slot}/checkpoints/t000001-s{number:012d}"
    return [f"{name}.json", f"{name}.safetensors"]


def test_output_and_scripts_of_ended_jobs_go_and_those_of_living_ones_stay() -> None:
    assert going("logs/slurm-16.out", "logs/slurm-17.out", "logs/controller.log") == [
        "logs/slurm-16.out"
    ]
    assert going("scripts/attempt-2.sbatch", "scripts/attempt-3.sbatch") == [
        "scripts/attempt-2.sbatch"
    ]


def test_young_output_stays() -> None:
    assert going("logs/slurm-16.out", age_days=6.0) == []


def test_releases_that_something_runs_or_may_fall_back_to_stay() -> None:
    assert going("releases/wanted", "releases/old", "releases/proven") == ["releases/old"]


def test_a_release_that_was_just_made_stays_until_it_is_used() -> None:
    assert going("releases/new", age_days=0.01) == []


def test_the_newest_checkpoints_of_every_slot_stay() -> None:
    paths = [*checkpoint(1), *checkpoint(2), *checkpoint(3), *checkpoint(1, slot=1)]
    assert going(*paths, age_days=0.0) == checkpoint(1)


def test_a_blob_without_its_manifest_does_not_count_as_a_checkpoint() -> None:
    half = checkpoint(9)[1]
    assert going(*checkpoint(1), *checkpoint(2), half, age_days=0.0) == []


def test_what_a_crash_left_goes_once_nobody_can_still_be_writing_it() -> None:
    assert going("logs/.tmp-1-ab", "releases/.tmp-cd", age_days=1.0) == [
        "logs/.tmp-1-ab",
        "releases/.tmp-cd",
    ]
    assert going("controller/.tmp-1-ab", age_days=0.01) == []


def test_what_readers_need_is_never_among_it() -> None:
    assert (
        going(
            "events/learner-slot-0-ab.jsonl",
            "controller/ledger.jsonl",
            "controller/intent.json",
            "shared_weights/merged/v00000001.json",
            "slots/0/lease/term-000001.json",
            "config.json",
        )
        == []
    )


def test_set_aside_checkpoints_and_ended_local_jobs_go_when_old() -> None:
    paths = ("slots/0/checkpoints/t000001-s000000000001.json.broken", "queue/ended/000004")
    assert going(*paths) == list(paths)
    assert going(*paths, age_days=1.0) == []
