"""A person goes back to an older version; jobs, mergers and laptops continue meanwhile."""

import dataclasses
import json
from pathlib import Path

import pytest
from rich.console import Console

from Daddy.core.errors import ExitCode, UsageError, WeightsError
from Daddy.core.friend_accounts import Friend, write_friends
from Daddy.core.shared_weights_paths import SharedPaths, joined_paths
from Daddy.weights import rollback
from Daddy.weights.encoding.state_arithmetic import StateDict
from Daddy.weights.encoding.state_codec import decode
from Daddy.weights.laptop.laptop_exchange import LaptopExchange
from Daddy.weights.laptop.pulled_folder import read_receipts
from Daddy.weights.lineage import from_records, to_lines
from Daddy.weights.rollback import roll_back
from Daddy.weights.status import render_status
from Daddy.weights.store.rebuild_version import rebuild_state
from Daddy.weights.store.weight_records import Revert, Version, parse
from Daddy.weights.store.weight_store import Store
from Daddy.weights.weights_status_record import report_run
from scripts.soaks import rollback as soak
from scripts.version_history import read_history
from tests.weights.helpers import ManualClock, Peer, begin, close, make_state


@dataclasses.dataclass
class Run:
    """Jobs that sync in turn on one folder."""

    root: Path
    clock: ManualClock
    peers: list[Peer]

    @property
    def store(self) -> Store:
        return Store(SharedPaths(self.root))

    @property
    def head(self) -> Version:
        store = self.store
        return store.version(store.newest())

    @property
    def weights(self) -> StateDict:
        return decode(self.store.read_blob(self.head.state))

    def round(self) -> Version:
        """Each job learns a little, all publish, one merges, all adopt."""
        for peer in self.peers:
            peer.shift(0.01)
            peer.publish()
        self.clock.pass_by(10.0)
        for peer in self.peers:
            peer.adopt()
        return self.head

    def go_back(self, number: int, reason: str = "it forgot") -> Version:
        return roll_back(self.store, number, reason, self.clock)


@pytest.fixture
def run(tmp_path):
    """Two jobs and some versions after the first."""
    clock, root = ManualClock(), tmp_path / "shared"
    made = Run(root, clock, [begin(root, f"slot-{k}", clock) for k in range(2)])
    for _ in range(3):
        made.round()
    return made


def shown(told: dict) -> str:
    console = Console(width=300)
    with console.capture() as text:
        console.print(render_status(told, told["ts"]))
    return text.get()


def test_a_new_version_has_the_state_of_the_old_one_and_the_run_goes_on(run):
    good, last = run.store.version(2), run.head.version
    made = run.go_back(2)
    assert (made.version, made.state, made.base) == (last + 1, good.state, 2)
    assert made.reverts == (Revert(3, last, last, 2, "it forgot"),)
    assert made.reverted == ((3, last),)
    assert made.fleet_steps == run.store.version(last).fleet_steps  # they were made all the same
    assert rebuild_state(run.store, made) == run.store.read_blob(made.state)
    for _ in range(4):
        run.round()
    later = [run.store.version(n) for n in range(made.version + 1, run.head.version + 1)]
    assert later[-1].inputs
    assert all(
        merged.base_version >= made.version for version in later for merged in version.inputs
    )
    assert read_history(SharedPaths(run.root)).chained


def test_a_job_takes_it_over_and_drops_what_it_learnt_on_what_was_taken_back(run):
    for peer in run.peers:
        peer.shift(5.0)
    made = run.go_back(2)
    for peer in run.peers:
        assert peer.adopt() == made.version
        assert close(peer.weights, run.weights)


def offer_unmerged(peer: Peer, monkeypatch) -> None:
    """Let a contribution wait in the folder, unmerged."""
    with monkeypatch.context() as patch:
        patch.setattr(peer.exchange, "_merge", lambda: None)
        peer.shift(0.01)
        peer.publish()


def judged_after(run: Run, made: Version) -> tuple[set[str], dict[str, str]]:
    """Return peers that counted since, and the refusal's reason of each of the others."""
    since = [run.store.version(n) for n in range(made.version + 1, run.head.version + 1)]
    counted = {merged.peer for version in since for merged in version.inputs}
    return counted, {
        refusal.peer: f"{refusal.fault}: {refusal.reason}" for v in since for refusal in v.refused
    }


def test_a_contribution_based_in_the_range_is_refused_and_one_of_before_counts(run, monkeypatch):
    early = begin(run.root, "slot-2", run.clock)
    base = early.version
    run.round()
    late = begin(run.root, "slot-3", run.clock)
    assert base < late.version
    for peer in (early, late):
        offer_unmerged(peer, monkeypatch)
    made = run.go_back(base)
    for _ in range(2):  # a contribution ages from the moment at which a merger first saw it
        run.peers[0].adopt()
        run.clock.pass_by(10.0)
    counted, refused = judged_after(run, made)
    assert counted == {"slot-2"}
    assert refused == {"slot-3": f"reverted: base v{late.version} was taken back: go on from the "
                       "newest version"}  # fmt: skip
    assert late.adopt() == run.head.version
    assert close(late.weights, run.weights)


def test_going_back_twice_takes_nothing_back_twice(run):
    last = run.head.version
    first = run.go_back(2)
    run.round()
    newest = run.head.version
    made = run.go_back(first.version)
    assert made.reverted == ((3, last), (first.version + 1, newest))
    assert made.state == run.store.version(2).state


def test_a_damaged_state_is_made_again_before_it_is_gone_back_to(run):
    number = run.head.version - 2
    blob = run.store.paths.blob(run.store.version(number).state)
    blob.chmod(0o644)
    blob.write_bytes(b"damaged")
    made = run.go_back(number)
    assert run.store.read_blob(made.state)


class Home:
    """A laptop with its own folder, whose pull and push are links and renames."""

    def __init__(self, run: Run, name: str) -> None:
        self.run, self.name, self.local = run, name, run.root.parent / name
        self.local.mkdir()
        for folder in ("wan", "receipts"):
            (self.local / folder).symlink_to(run.root / folder)
        self.exchange = LaptopExchange(self.local, name, "0a0a0a0a", run.clock, min_seconds=0)
        self.weights = dict(self.exchange.join_fleet(make_state, None).weights)

    def contribute(self, own: StateDict, steps: int) -> None:
        self.exchange.publish(own, steps, 10)
        box = self.run.root / "inbox" / self.name
        box.mkdir(parents=True, exist_ok=True)
        for ending in ("*.st", "*.json"):
            for path in sorted((self.local / "outbox" / self.name).glob(ending)):
                path.rename(box / path.name)


def test_a_laptop_is_served_the_version_and_told_what_became_of_its_work(run):
    home = Home(run, "anna")
    own = {name: tensor + 0.01 if tensor.is_floating_point() else tensor
           for name, tensor in home.weights.items()}  # fmt: skip
    home.contribute(own, 100)
    merged = run.round()
    number = next(n for n in range(merged.version, 0, -1)
                  if "anna" in {entry.peer for entry in run.store.version(n).inputs})  # fmt: skip
    made = run.go_back(number - 1, "it forgot the way")
    told = read_receipts(home.local, "anna")
    assert [(message.accepted, message.fault) for message in told] == [
        (True, ""),
        (False, "reverted"),
    ]
    assert "it forgot the way" in told[1].reason
    adopted = home.exchange.adopt(own)
    assert adopted.version == made.version
    assert "was taken back" in adopted.reason
    assert close(dict(adopted.weights), run.weights, 0.02)  # bfloat16


def test_log_and_status_name_what_was_taken_back_and_why(run):
    last = run.head.version
    made = run.go_back(2)
    (line,) = [line for line in to_lines(from_records([made], {}, {}), 200) if "took back" in line]
    assert f"took back v3 to v{last}: it forgot" in line
    told = report_run(SharedPaths(run.root), run.clock.now())
    assert told["reverted"] == [
        {"version": last + 1, "first": 3, "last": last, "good": 2, "reason": "it forgot"}
    ]
    assert f"v{last + 1} took back v3 to v{last}: it forgot" in shown(told)


def test_the_command_says_what_it_did(run, capsys):
    last = run.head.version
    argv = ["v2", str(run.root), "--reason", "it forgot"]
    assert rollback.main(argv) == ExitCode.DONE
    assert f"v{last + 1} has the state of v2" in (said := capsys.readouterr().out)
    assert f"v3 to v{last} are taken back: it forgot" in said
    assert run.head.merger == "rollback"


def refused(run: Run, text: str, error: type[Exception] = WeightsError, root: Path | None = None):
    with pytest.raises(error) as found:
        rollback.main([text, str(root or run.root)])
    return str(found.value)


def test_versions_that_cannot_be_gone_back_to_are_refused_by_name(run):
    last = run.head.version
    assert f"no v99, its newest version is v{last}" in refused(run, "v99")
    assert "newest version already" in refused(run, f"v{last}", UsageError)
    run.store.paths.blob(run.store.version(1).state).unlink()
    assert "the state of v1 was deleted" in refused(run, "v1")
    path = run.store.paths.version(3)
    path.chmod(0o644)
    path.write_text(path.read_text().replace(run.head.run_id, "another"))
    assert "v3 is of run another" in refused(run, "v3")
    with pytest.raises(SystemExit) as left:
        rollback.main(["newest", str(run.root)])
    assert left.value.code == ExitCode.USAGE
    assert run.head.version == last


def test_only_the_owner_goes_back(run, monkeypatch, tmp_path):
    home = Home(run, "anna")
    assert "is a pulled folder" in refused(run, "v2", root=home.local)
    friend = tmp_path / "friend"
    friend.mkdir()
    write_friends(SharedPaths(run.root), [Friend("anna", str(friend), 0)])
    paths = joined_paths(friend, run.root)
    paths.joined.write_text(json.dumps({"format": 1, "theirs": str(run.root)}))
    assert "only the owner of that run" in refused(run, "v2", root=friend)
    monkeypatch.setattr("os.getuid", lambda: 4711)
    assert "belongs to the account" in refused(run, "v2")


def test_records_of_the_release_before_are_read_and_ours_hold_every_version_good(run):
    made = run.go_back(2)
    assert json.loads(made.to_json_bytes())["probation"] == {
        "good": made.version, "trial": 0, "since": 0, "asked_by": "",
    }  # fmt: skip
    old = json.loads(made.to_json_bytes())
    old["probation"] = {"good": 3, "trial": 5, "since": 6, "asked_by": "anna"}
    old["reverts"][0] |= {"without": ["anna/0a0a0a0a/1"], "replayed": 2}
    read = parse(Version, json.dumps(old).encode(), "an old record")
    assert read.reverts[0].without == ("anna/0a0a0a0a/1",)


def test_beside_four_mergers_and_two_laptops_nothing_that_was_taken_back_returns():
    figures = soak.run(4, 7)
    assert figures["broken"] == []
    assert figures["rollbacks"] == 4
    assert figures["of_laptops"] > 0
