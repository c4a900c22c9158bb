"""Milestones between a run and a laptop: claims, played again and never trusted. The cartridge."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from Daddy.background.milestone_intake import (
    FIRST_WAIT_S,
    LONGEST_WAIT_S,
    JudgingTurns,
    MilestoneIntake,
)
from Daddy.background.milestone_sync import MilestoneSync
from Daddy.core.atomic_files import sha256_hex
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.pokemon.archive import archive_store, claim_format
from Daddy.pokemon.archive.archive_decisions import ArchiveRules
from Daddy.pokemon.archive.archive_env import ArchivedEnv
from Daddy.pokemon.archive.claim_replay import ReplayGame
from Daddy.pokemon.find_rom import cartridge_path
from Daddy.weights import laptop_attachments
from Daddy.weights.laptop.pull_push import pull, push
from Daddy.weights.store.weight_store import Store
from tests.pokemon.archive.players import advance, archived, milestones_of
from tests.weights.folder_transport import FolderTransport
from tests.weights.helpers import ManualClock, begin

RULES = ArchiveRules(follow=False, fresh=0.0, starts=True, square=0)
GAME = ReplayGame(cartridge_path())


class World:
    """A run with one job and its archive, and a laptop with an archive of its own."""

    def __init__(self, root: Path) -> None:
        self.clock = ManualClock()
        self.shared, self.local = root / "shared", root / "laptop"
        self.job = begin(self.shared, "slot-0", self.clock)
        self.transport = FolderTransport(self.shared)
        self.told: list[Mapping[str, object]] = []
        self.said: list[str] = []
        self.learner = archived(root / "run-archive", RULES)
        self.learner.reset(seed=1)
        self.player = archived(root / "laptop-archive", RULES)
        self.store = Store(SharedPaths(self.shared))
        ours = (self.store, self.learner._archive, GAME, "slot-0", self.clock, self.said.append)
        self.intake = MilestoneIntake(*ours)
        theirs = (self.player._archive, GAME, "anna", self.clock)
        self.sync = MilestoneSync(self.local, *theirs, self.told.append)

    def another_version(self) -> None:
        self.job.learn(self.job.env_steps)
        self.job.publish()
        self.clock.pass_by(100)
        assert self.job.adopt() is not None

    def round(self) -> None:
        """The run looks, the laptop pulls, looks and pushes, an hour passes."""
        self.intake.run_cycle()
        pull(self.transport, self.local, self.clock)
        self.sync.run_cycle()
        push(self.transport, self.local, self.clock)
        self.clock.pass_by(LONGEST_WAIT_S)

    def whats(self) -> list[object]:
        return [event["what"] for event in self.told]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.delenv("DADDY_ROM", raising=False)
    made = World(tmp_path)
    yield made
    made.learner.close()
    made.player.close()
    archive_store.open_archive.cache_clear()


def most(env: ArchivedEnv) -> int:
    return max((entry.rank for entry in env._archive.list_states(force=True).entries), default=0)


def test_a_laptop_goes_on_from_the_runs_milestones_and_the_run_from_the_laptops(
    world: World,
) -> None:
    advance(world.learner, 2)
    for _ in range(3):
        world.round()
        world.another_version()
    assert most(world.player) == 2
    assert world.whats() == ["played"] * len(world.told)
    world.player.reset(seed=99)
    assert milestones_of(world.player) >= 1  # from a state that it played again, not from the start
    advance(world.player, 4)
    mine = max(world.player._archive.list_states(force=True).entries)
    for _ in range(4):
        world.round()
    assert "handed in" in world.whats()
    assert most(world.learner) == most(world.player) >= 4
    best = max(world.learner._archive.list_states(force=True).entries)
    provenance, state = world.learner._archive.read_state(best)
    assert provenance.origin.endswith(" of anna")
    other = archived(world.learner._archive.folder.parent, RULES)  # another learner loads it
    other.adopt_game(state)
    assert other.progress.hp == mine.hp
    other.close()
    assert "accepted" in world.whats()


def test_what_the_run_has_is_not_handed_in_again(world: World) -> None:
    advance(world.learner, 2)
    for _ in range(4):
        world.round()
        world.another_version()
    assert "handed in" not in world.whats()


def test_what_was_handed_in_is_not_played_again_by_its_author(world: World) -> None:
    world.player.reset(seed=5)
    advance(world.player, 2)
    for _ in range(6):
        world.round()
        world.another_version()
    handed = world.whats().count("handed in")
    assert handed >= 1
    assert world.whats().count("accepted") == handed
    assert "played" not in world.whats()


def box(world: World, data: bytes, number: int = 1, name: str = "") -> Path:
    """Something that a hostile laptop puts into its box."""
    path = world.shared / "inbox" / "mallory"
    path.mkdir(parents=True, exist_ok=True)
    path /= name or f"{'0b' * 4}-{number:06d}-{sha256_hex(data)}.claim"
    path.write_bytes(data)
    return path


def answer(world: World, number: int = 1) -> laptop_attachments.AttachmentReceipt:
    folder = world.shared / "receipts" / "mallory"
    shutil.copytree(folder, world.local / "receipts" / "mallory", dirs_exist_ok=True)
    found = laptop_attachments.read_attachment_receipts(world.local, "mallory")
    return next(receipt for receipt in found if receipt.sequence == number)


def honest(world: World) -> claim_format.Claim:
    world.player.reset(seed=5)
    world.player._rules = replace(RULES, per_key=0)
    advance(world.player, 1)
    claim = world.player._log.make_claim(world.player._history.held)
    assert claim is not None
    return claim


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"held": frozenset({"beat_champion"})}, "it does not reach beat_champion"),
        ({"parent": "f" * 64}, "is not known here"),
        ({"inputs": b"\3" * 10}, "it does not reach"),
        ({"start": {"bit_generator": "pickle"}}, "unknown random generator"),
    ],
)
def test_a_claim_that_lies_is_refused_with_a_receipt(
    world: World, change: dict[str, object], reason: str
) -> None:
    claim = replace(honest(world), **change)  # type: ignore[arg-type]
    path = box(world, claim_format.encode_claim(claim))
    world.intake.run_cycle()
    assert reason in answer(world).reason
    assert not answer(world).accepted
    assert not path.exists()
    assert most(world.learner) == 0


def test_an_endless_claim_is_ended(world: World) -> None:
    world.intake._game = replace(GAME, seconds=2.0)
    box(
        world,
        claim_format.encode_claim(
            claim_format.Claim("", {"seed": 1}, b"\3" * 200_000, frozenset())
        ),
    )
    world.intake.run_cycle()
    assert "did not end within 2 s" in answer(world).reason


@pytest.mark.parametrize("data", [b"", b"\x80\x04N.", b"{}", b"[" * 50_000])
def test_what_is_no_claim_is_refused_unplayed(world: World, data: bytes) -> None:
    box(world, data)
    world.intake.run_cycle()
    assert "cannot be read" in answer(world).reason


def test_who_lies_waits_longer_each_time_and_keeps_nobody_else_waiting(world: World) -> None:
    for number in range(1, 6):
        box(world, b"no claim %d" % number, number)
    claim = honest(world)
    laptop_attachments.queue_attachment(
        world.local, "anna", "0a" * 4, 1, claim_format.encode_claim(claim)
    )
    push(world.transport, world.local, world.clock)
    for _ in range(4):
        world.intake.run_cycle()
        world.clock.pass_by(FIRST_WAIT_S)
    assert any(line.startswith("milestone of anna kept") for line in world.said)
    assert sum(line.startswith("milestone of mallory") for line in world.said) == 2


def test_the_wait_of_who_earns_nothing_doubles_up_to_an_hour() -> None:
    turns, waits = JudgingTurns(), []
    for _ in range(12):
        turns.record_result("mallory", 0.0, accepted=False)
        waits.append(turns.due["mallory"])
    assert waits[:3] == [10, 20, 40]
    assert waits[-1] == LONGEST_WAIT_S
    assert turns.next_peer(["mallory"], 3599.0) is None
    turns.record_result("mallory", 0.0, accepted=True)
    assert turns.next_peer(["mallory", "anna"], 10.0) == "anna"


def test_one_job_at_a_time_judges_and_another_takes_over(world: World) -> None:
    world.intake.run_cycle()
    ours = (world.store, world.learner._archive, GAME, "slot-1", world.clock, world.said.append)
    second = MilestoneIntake(*ours)
    box(world, b"no claim")
    second.run_cycle()
    assert world.said == []
    world.intake.release_lease()
    second.run_cycle()
    assert len(world.said) == 1


def test_who_falls_silent_with_the_lease_is_followed(world: World) -> None:
    world.intake.run_cycle()
    ours = (world.store, world.learner._archive, GAME, "slot-1", world.clock, world.said.append)
    second = MilestoneIntake(*ours)
    box(world, b"no claim")
    for _ in range(3):
        second.run_cycle()
        world.clock.pass_by(500)
    second.run_cycle()
    assert len(world.said) == 1
    world.intake.run_cycle()  # the one that was silent wakes up: it is fenced
    assert len(world.said) == 1
