"""Versions offered to laptops, the choice of encoding, and the fetched bytes: with real files."""

import dataclasses
import json
import shutil

import pytest
import torch

from Daddy.core.clock import SystemClock
from Daddy.core.errors import NetworkError, WeightsError
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.encoding.delta_frames import pack_delta
from Daddy.weights.encoding.state_codec import decode, encode
from Daddy.weights.laptop.pull_push import UNFINISHED, cheapest_route, pull
from Daddy.weights.laptop.pulled_folder import newest_verified
from Daddy.weights.store.laptop_downloads import KEEP_KEYFRAMES, REACH, SPARE, offer_version
from Daddy.weights.store.weight_records import LaptopFrame, LaptopHead, parse
from Daddy.weights.store.weight_store import Store
from tests.weights.folder_transport import FolderTransport
from tests.weights.helpers import ManualClock, begin, perturbed

FRAME = LaptopHead(
    version=5, name="kf-00000005-0123456789ab.st", size=1000, sha256="55" * 32, state="ab" * 32,
    run="run", run_id="id", workload="w", schema="cd" * 32, fleet_steps=1, ts=1.0,
)  # fmt: skip


def part(version: int, size: int, base: int | None = None) -> LaptopFrame:
    kind = "kf" if base is None else "d"
    name = f"{kind}-{version:08d}-{version:012x}.wire"
    return LaptopFrame(name, size, version, f"{version}{version}" * 32,
                "" if base is None else f"{base}{base}" * 32)  # fmt: skip


OFFERED = dataclasses.replace(
    FRAME, parts=(part(4, 90, 3), part(5, 120, 3), part(5, 110, 4), part(5, 700))
)


@pytest.mark.parametrize(
    ("held", "kind", "size", "said"),
    [
        ("44" * 32, "d", 110, "a delta"),
        ("33" * 32, "d", 120, "a delta"),
        ("11" * 32, "kf", 700, "too old"),
        ("", "kf", 700, "whole"),
    ],
)
def test_the_way_with_the_fewest_bytes_is_taken(held, kind, size, said):
    route = cheapest_route(OFFERED, held)
    assert (route.part.version, route.part.file.split("-")[0]) == (5, kind)
    assert route.size == size
    assert said in route.reason


def test_a_step_that_costs_more_than_the_whole_is_not_taken():
    dear = dataclasses.replace(FRAME, parts=(part(5, 800, 4), part(5, 700)))
    assert cheapest_route(dear, "44" * 32).part.size == 700


@pytest.mark.parametrize(
    "parts",
    [
        (),  # an older cluster
        (part(5, 1000),),  # nothing gained
        (part(4, 10),),  # leads elsewhere
        (part(5, 10, 4),),  # from what nobody here holds
    ],
)
def test_where_no_frame_helps_the_plain_file_is_fetched(parts):
    route = cheapest_route(dataclasses.replace(FRAME, parts=parts), "")
    assert (route.part, route.size) == (None, 1000)


class Run:
    """One learner with a policy large enough for compression, and a laptop's folder."""

    def __init__(self, root):
        self.clock, self.root = ManualClock(), root / "shared"
        own = {"w": torch.randn(100, 200, generator=torch.Generator().manual_seed(3)) * 0.05}
        self.peer = begin(self.root, "slot-0", self.clock, own=own)
        self.transport, self.local = FolderTransport(self.root), root / "laptop"

    @property
    def store(self) -> Store:
        return Store(SharedPaths(self.root))

    def advance(self, count: int = 1) -> None:
        for _ in range(count):
            self.clock.pass_by(10)
            self.peer.learn(int(self.clock.time), scale=1e-5)
            self.peer.publish()
            self.peer.adopt()

    def pull(self):
        found = pull(self.transport, self.local, SystemClock())
        verified = newest_verified(self.local)
        assert verified.version == found.head.version
        plain = encode(decode(self.store.read_blob(found.head.state)), half=True)
        assert verified.data == plain  # bit for bit what a plain pull brings
        return found


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path)


def test_a_newcomer_takes_the_whole_and_then_follows_in_steps(run):
    assert run.pull().route.reason == "whole"
    assert run.transport.frames() == ["kf.wire"]
    run.advance()
    run.pull()
    assert run.transport.frames() == ["d.wire"]
    run.advance(3)
    found = run.pull()
    assert run.transport.frames() == ["d.wire"]  # one step over three versions
    assert found.route.size < found.head.size / 2
    assert list((run.local / "incoming").glob("*.wire")) == []


def test_whoever_slept_too_long_takes_the_whole(run):
    run.pull()
    run.advance(REACH + 1)
    run.transport.frames()
    assert "too old" in run.pull().route.reason
    assert run.transport.frames() == ["kf.wire"]


def test_the_head_lists_a_bounded_number_of_frames_and_every_one_is_there(run):
    run.advance(REACH + SPARE + 3)
    frame = run.store.keyframe()
    steps = [item for item in frame.parts if item.base_sha256]
    assert len(steps) == REACH
    for entry in frame.parts:
        assert (run.root / "wan" / entry.file).stat().st_size == entry.size
    assert len(list((run.root / "wan").glob("d-*.wire"))) == REACH * (1 + SPARE)
    assert len(list((run.root / "wan").glob("kf-*.wire"))) == 1 + SPARE
    assert len(frame.to_json_bytes()) < 3_000
    assert frame.accepts == ("int8",)


def test_two_who_serve_the_same_versions_write_the_same(run, tmp_path):
    run.advance(2)
    twin = tmp_path / "twin"
    shutil.copytree(run.root, twin)
    served = []
    for root in (run.root, twin):
        shutil.rmtree(root / "wan")
        store = Store(SharedPaths(root))
        for number in range(3):
            state = decode(store.read_blob(store.version(number).state))
            offer_version(store, number, encode(state, half=True))
        served.append({path.name: path.read_bytes() for path in store.paths.wan.iterdir()})
    assert served[0] == served[1]
    assert len(served[0]) == 1 + 3 + 3 + 3  # the head, plain files, whole frames, steps


def test_a_version_served_twice_is_served_once(run):
    run.advance(3)
    head = run.root / "wan" / "HEAD.json"
    before, names = head.read_bytes(), sorted((run.root / "wan").iterdir())
    offer_version(run.store, 3, encode(run.peer.weights, half=True))
    assert head.read_bytes() == before
    assert sorted((run.root / "wan").iterdir()) == names


def damage(path) -> None:
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x55
    path.write_bytes(data)


def test_a_damaged_frame_costs_a_plain_file_and_never_shows(run):
    run.pull()
    run.advance()
    run.transport.frames()
    for path in (run.root / "wan").glob("*-00000001-*.wire"):
        damage(path)
    assert run.pull().route
    assert run.transport.frames() == ["d.wire", "kf.st"]


def test_frames_that_were_cleaned_away_cost_a_plain_file(run):
    run.pull()
    run.advance()
    run.transport.frames()
    for path in (run.root / "wan").glob("*.wire"):
        path.unlink()
    assert run.pull().route
    assert run.transport.frames() == ["d.wire", "kf.st"]


def test_when_nothing_verifies_what_was_here_stays(run):
    run.pull()
    run.advance()
    for path in (run.root / "wan").glob("*-00000001-*"):
        damage(path)
    with pytest.raises(WeightsError, match="damaged, or not at all"):
        pull(run.transport, run.local, SystemClock())
    assert newest_verified(run.local).version == 0


@pytest.mark.parametrize(
    "change", [{"sha256": "00" * 32}, {"size": 12}, {"base_sha256": "11" * 32}]
)
def test_a_head_that_lies_about_a_frame_does_not_put_other_weights_in_place(run, change):
    run.pull()
    run.advance()
    head = run.root / "wan" / "HEAD.json"
    frame = parse(LaptopHead, head.read_bytes(), "it")
    wrong = [
        dataclasses.replace(entry, **change) if entry.base_sha256 else entry
        for entry in frame.parts
    ]
    head.write_bytes(dataclasses.replace(frame, parts=tuple(wrong)).to_json_bytes())
    assert run.pull().route


def test_a_frame_in_order_that_gives_other_weights_does_not_put_them_in_place(run):
    run.pull()
    base = newest_verified(run.local)
    other = encode(perturbed(decode(base.data), 9, 1e-5), half=True)
    run.advance()
    run.transport.frames()
    head = run.root / "wan" / "HEAD.json"
    frame = parse(LaptopHead, head.read_bytes(), "it")
    forged = pack_delta(other, base.data)
    (step,) = (entry for entry in frame.parts if entry.base_sha256)
    path = run.root / "wan" / step.file
    path.chmod(0o644)
    path.write_bytes(forged)
    wrong = (dataclasses.replace(step, size=len(forged)),)
    head.write_bytes(dataclasses.replace(frame, parts=wrong).to_json_bytes())
    assert run.pull().route
    assert run.transport.frames() == ["d.wire", "kf.st"]


def test_a_frame_under_a_path_of_its_own_choice_makes_the_head_invalid(run):
    head = run.root / "wan" / "HEAD.json"
    for name in ("../../.ssh/config", "/etc/passwd", "kf-00000000-0123456789ab.wire\n", "-x.wire"):
        body = json.loads(head.read_bytes())
        body["parts"][0]["file"] = name
        with pytest.raises(WeightsError, match="file"):
            parse(LaptopHead, json.dumps(body).encode(), "it")


def test_an_older_laptop_finds_the_plain_file_under_the_head_it_knows(run):
    run.advance()
    body = json.loads((run.root / "wan" / "HEAD.json").read_bytes())
    older = {name: body[name] for name in body if name not in ("parts", "accepts")}
    frame = parse(LaptopHead, json.dumps(older).encode(), "it")
    assert (frame.parts, frame.accepts) == ((), ())
    assert (run.root / "wan" / frame.name).stat().st_size == frame.size


def test_from_a_cluster_without_frames_the_plain_file_is_pulled(run):
    head = run.root / "wan" / "HEAD.json"
    frame = parse(LaptopHead, head.read_bytes(), "it")
    head.write_bytes(dataclasses.replace(frame, parts=(), accepts=()).to_json_bytes())
    assert run.pull().route
    assert run.transport.frames() == ["kf.st"]


def test_what_is_here_and_damaged_is_no_base_for_a_step(run):
    run.pull()
    damage(run.local / "wan" / newest_verified(run.local).head.name)
    run.advance()
    run.transport.frames()
    assert run.pull().route.reason == "whole"
    assert run.transport.frames() == ["kf.wire"]


class BrokenLine(FolderTransport):
    """Breaks in the middle of the next large file; the bytes that arrived are kept."""

    breaks = False

    def fetch(self, name, into, size):
        if self.breaks and size:
            self.breaks = False
            into.mkdir(parents=True, exist_ok=True)
            self.fetched.append(name)
            raise NetworkError("the line broke", "try again")
        return super().fetch(name, into, size)


@pytest.fixture
def thin(run):
    run.transport = BrokenLine(run.root)
    return run


def break_off(run):
    run.transport.breaks = True
    with pytest.raises(NetworkError):
        run.pull()


def test_what_was_begun_is_finished_before_a_newer_version_is(thin):
    """Otherwise over a slow line every newer version would restart the fetch; none would end."""
    break_off(thin)
    thin.advance(2)
    assert thin.pull().head.version == 2
    assert thin.transport.frames() == ["kf.wire", "kf.wire", "d.wire"]
    assert not list(thin.local.glob("incoming/*"))


def test_the_same_version_goes_on_where_it_stopped(thin):
    thin.pull()
    thin.advance()
    thin.transport.frames()
    break_off(thin)
    assert thin.pull().route.reason == "a delta from the local version"
    assert thin.transport.frames() == ["d.wire", "d.wire"]


def test_what_was_begun_and_is_not_offered_any_more_is_given_up(thin):
    break_off(thin)
    thin.advance(SPARE + KEEP_KEYFRAMES + 1)
    thin.transport.frames()
    newest = SPARE + KEEP_KEYFRAMES + 1
    assert thin.pull().head.version == newest
    assert thin.transport.frames() == ["kf.wire", "kf.wire"]


def test_what_was_begun_of_another_run_is_given_up(thin):
    thin.pull()
    thin.advance()
    break_off(thin)
    path = thin.local / "incoming" / UNFINISHED
    other = dataclasses.replace(parse(LaptopHead, path.read_bytes(), "it"), run_id="0" * 16)
    path.write_bytes(dataclasses.replace(other, name="kf-00000009-000000000000.st").to_json_bytes())
    thin.advance()
    thin.transport.frames()
    assert thin.pull().head.version == 2
    assert thin.transport.frames() == ["d.wire"]


def test_a_damaged_note_of_what_was_begun_is_no_trouble(thin):
    break_off(thin)
    (thin.local / "incoming" / UNFINISHED).write_bytes(b"{")
    assert thin.pull().route


@pytest.mark.parametrize("size", [0, (1 << 30) + 1, (1 << 53) - 1])
@pytest.mark.parametrize("whose", ["frame", "part"])
def test_a_head_of_absurd_sizes_is_refused_and_leaves_no_trap(run, size, whose):
    head = run.root / "wan" / "HEAD.json"
    good = head.read_bytes()
    body = json.loads(good)
    (body if whose == "frame" else body["parts"][0])["size"] = size
    head.write_bytes(json.dumps(body).encode())
    with pytest.raises(WeightsError, match="too many bytes"):
        run.pull()
    head.write_bytes(good)
    assert run.pull().route


def test_a_note_of_absurd_sizes_is_passed_over(thin):
    break_off(thin)
    path = thin.local / "incoming" / UNFINISHED
    body = json.loads(path.read_bytes())
    path.write_bytes(json.dumps({**body, "size": (1 << 53) - 1}).encode())
    thin.advance()
    assert thin.pull().head.version == 1


def test_whoever_serves_slowly_does_not_turn_the_head_back(run):
    run.advance(2)
    old = run.store.version(1)
    offer_version(run.store, 1, encode(decode(run.store.read_blob(old.state)), half=True))
    assert run.store.keyframe().version == 2
    assert run.pull().head.version == 2


def test_a_frame_that_went_away_costs_a_second_look_and_no_plain_file(run):
    run.pull()
    run.advance()
    run.transport.frames()
    real, gone = run.transport.fetch, []

    def fetch(name, into, size):
        if size and not gone:
            gone.append(name)
            run.advance()
            return False
        return real(name, into, size)

    run.transport.fetch = fetch
    assert run.pull().head.version == 2
    assert run.transport.frames() == ["d.wire"]
