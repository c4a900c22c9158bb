"""Attachments beside the weights: hostile boxes, bounds, receipts."""

import os
from pathlib import Path

import pytest

from Daddy.core.atomic_files import sha256_hex, write_atomic
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights import laptop_attachments
from Daddy.weights.laptop.pull_push import list_outbox as contributions_waiting
from Daddy.weights.laptop.pull_push import pull, push
from Daddy.weights.laptop.pulled_folder import read_receipts
from Daddy.weights.merge.cleanup import KEEP_RECEIPTS, Sweeper
from Daddy.weights.merge.contributions import laptop_boxes, list_box_records
from Daddy.weights.merge.merge_inputs import PeerReader
from Daddy.weights.store.heartbeats import StallTimer
from Daddy.weights.store.weight_records import AttachmentReceipt, Receipt
from Daddy.weights.store.weight_store import Store
from tests.weights.folder_transport import FolderTransport
from tests.weights.helpers import ManualClock, begin

OWN = "0a" * 4


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    begin(tmp_path / "shared", "slot-0", ManualClock())
    return tmp_path / "shared"


def name(data: bytes, number: int = 1) -> str:
    return f"{OWN}-{number:06d}-{sha256_hex(data)}.claim"


def drop(shared: Path, data: bytes, called: str = "", peer: str = "mallory") -> Path:
    path = shared / "inbox" / peer / (called or name(data))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def seen(shared: Path) -> dict[str, list[laptop_attachments.Attachment]]:
    return laptop_attachments.pending_attachments(Store(SharedPaths(shared)))


def test_a_parcel_arrives_and_its_answer_comes_back(shared: Path, tmp_path: Path) -> None:
    local, transport, clock = tmp_path / "laptop", FolderTransport(shared), ManualClock()
    sha = laptop_attachments.queue_attachment(local, "anna", OWN, 1, b"a milestone")
    assert push(transport, local, clock) == 1
    assert push(transport, local, clock) == 0
    (parcel,) = seen(shared)["anna"]
    assert (parcel.data, parcel.sha256, parcel.peer) == (b"a milestone", sha, "anna")
    laptop_attachments.answer_attachment(
        Store(SharedPaths(shared)), parcel, "it leads there", accepted=True
    )
    assert seen(shared) == {}
    pull(transport, local, clock)
    (told,) = laptop_attachments.read_attachment_receipts(local, "anna")
    assert (told.accepted, told.reason, told.sha256) == (True, "it leads there", sha)
    assert laptop_attachments.queued_hashes(local, "anna") == {sha}
    assert read_receipts(local, "anna") == []  # nobody takes it for a contribution's


def test_a_receipts_text_reaches_no_terminal_with_its_control_characters(tmp_path: Path) -> None:
    folder, reason = tmp_path / "receipts" / "anna", "ok\x1b]0;owned\x07\nall is well"
    refused = Receipt("anna", OWN, 1, False, 2, 0.0, "values", reason)
    answer = AttachmentReceipt("anna", OWN, 1, "0" * 64, False, reason)
    write_atomic(folder / "000001.json", refused.to_json_bytes())
    write_atomic(folder / "claim-000001.json", answer.to_json_bytes())
    (told,) = read_receipts(tmp_path, "anna")
    (answered,) = laptop_attachments.read_attachment_receipts(tmp_path, "anna")
    assert told.reason == answered.reason == "ok?]0;owned??all is well"


def test_parcels_are_no_contributions(shared: Path, tmp_path: Path) -> None:
    drop(shared, b"x")
    assert [list_box_records(box) for box in laptop_boxes(Store(SharedPaths(shared)))] == [[]]
    assert len(seen(shared)["mallory"]) == 1
    laptop_attachments.queue_attachment(tmp_path, "anna", OWN, 1, b"y")
    assert contributions_waiting(tmp_path) == []


@pytest.mark.parametrize(
    "called",
    ["..claim", "-rf.claim", "x\ny.claim", name(b"other"), f"{OWN}-1-{'0' * 64}.claim",
     f"{OWN}-000001-{'0' * 12}.claim"],
)  # fmt: skip
def test_a_strange_name_is_set_aside(shared: Path, called: str) -> None:
    path = drop(shared, b"x", called)
    assert seen(shared) == {}
    assert not path.exists()
    assert len(list((shared / "quarantine" / "parcel").iterdir())) == 1


def test_links_pipes_and_sparse_files_are_removed_unread(shared: Path, tmp_path: Path) -> None:
    box = shared / "inbox" / "mallory"
    box.mkdir(parents=True)
    secret = tmp_path / "secret"
    secret.write_bytes(b"s")
    (box / name(b"s", 1)).symlink_to(secret)
    os.link(secret, box / name(b"s", 2))
    os.mkfifo(box / name(b"s", 3))
    with (box / name(b"s", 4)).open("wb") as sparse:
        sparse.truncate(10 << 30)
    (box / name(b"s", 5)).mkdir()
    assert seen(shared) == {}
    assert list(box.iterdir()) == []


def test_a_slots_name_is_no_laptop(shared: Path) -> None:
    drop(shared, b"x", peer="slot-1")
    assert seen(shared) == {}


def test_a_flood_is_thrown_away_and_nobody_else_is_kept_waiting(shared: Path) -> None:
    for number in range(3_000):
        drop(shared, b"%d" % number, name(b"%d" % number, number))
    drop(shared, b"honest", peer="anna")
    found = seen(shared)
    assert len(found["mallory"]) == laptop_attachments.BOX_LIMIT
    assert len(found["anna"]) == 1
    assert len(list((shared / "inbox" / "mallory").iterdir())) == laptop_attachments.FLOOD


def test_what_was_answered_is_not_judged_again(shared: Path) -> None:
    store = Store(SharedPaths(shared))
    drop(shared, b"x")
    laptop_attachments.answer_attachment(store, seen(shared)["mallory"][0], "no", accepted=False)
    path = drop(shared, b"x")
    assert seen(shared) == {}
    assert not path.exists()


def test_answers_do_not_push_out_the_receipts_of_contributions(shared: Path) -> None:
    clock = ManualClock()
    job = begin(shared, "slot-1", clock)
    folder = shared / "receipts" / "anna"
    folder.mkdir(parents=True)
    for number in range(KEEP_RECEIPTS + 10):
        (folder / f"claim-{OWN}-{number:06d}.json").write_bytes(b"{}")
    (folder / f"{OWN}-000001.json").write_bytes(b"{}")
    store = Store(SharedPaths(shared))
    sweeper = Sweeper(store, 8, StallTimer(clock), PeerReader(store, clock))
    sweeper.sweep(store.version(job.version))
    assert (folder / f"{OWN}-000001.json").exists()
    assert len(list(folder.glob("claim-*.json"))) == KEEP_RECEIPTS


def test_what_is_shown_comes_with_a_new_version_and_must_be_what_its_name_says(
    shared: Path, tmp_path: Path
) -> None:
    store, local, transport = (
        Store(SharedPaths(shared)),
        tmp_path / "laptop",
        FolderTransport(shared),
    )
    things = {sha256_hex(data): data for data in (b"one", b"two")}
    assert laptop_attachments.publish_attachments(store, things) == 2
    assert laptop_attachments.publish_attachments(store, things) == 0
    pull(transport, local, ManualClock())
    here = laptop_attachments.list_published(local)
    assert {sha: laptop_attachments.read_published(path) for sha, path in here.items()} == things
    spoilt = here[sha256_hex(b"one")]
    spoilt.chmod(0o644)
    spoilt.write_bytes(b"another")
    assert laptop_attachments.read_published(spoilt) is None
    laptop_attachments.publish_attachments(store, {sha256_hex(b"two"): b"two"})
    assert [path.stem for path in (shared / "wan" / "claims").iterdir()] == [sha256_hex(b"two")]
