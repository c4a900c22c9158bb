"""Attacks on one live run: real sshd and rsync, a learner of the local scheduler, two accounts.

Anna's laptop is honest. Aaron's is not: he has the three keys that ``setup`` made for it, and,
where the tests run as root, an account of his own that may write into his box.
"""

import json
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import torch

from Daddy.core.atomic_files import sha256_hex
from Daddy.core.clock import SystemClock
from Daddy.core.errors import WeightsError
from Daddy.core.run_paths import RunPaths
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.encoding.state_codec import decode, encode
from Daddy.weights.laptop.laptop_exchange import LaptopExchange
from Daddy.weights.laptop.pulled_folder import VerifiedVersion, newest_verified
from Daddy.weights.merge.contributions import box_name
from Daddy.weights.store.weight_records import Contribution, Version
from Daddy.weights.store.weight_store import Store, version_numbers
from scripts.version_history import read_history
from tests import patience
from tests.cluster.conftest import ROOT, Person, small_config
from tests.weights.helpers import shifted
from tests.weights.laptop_home import Laptop, a_laptop, run
from tests.weights.test_two_accounts import FRIEND
from tests.weights.test_two_accounts import ROOT as AS_ROOT

LIE = 1 << 30
BIG, SPARSE = 20_000_000, 10 << 30
PRIVATE = "the account's secret"


def until(condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    assert patience.until(condition, timeout_s, 0.2)


@dataclass
class Siege:
    """A run in the home of the cluster's account, and two laptops with confined keys."""

    person: Person
    anna: Laptop
    aaron: Laptop
    offers: int = 0
    records: dict[int, Version] = field(default_factory=dict)
    """The commit records read so far, which do not change."""

    @property
    def shared(self) -> SharedPaths:
        return SharedPaths(self.anna.shared)

    @property
    def box(self) -> Path:
        return self.shared.inbox / "aaron"

    @property
    def newest(self) -> Version:
        store = Store(self.shared)
        return store.version(store.newest())

    def goes_on(self, versions: int = 3) -> None:
        """Wait until this many more versions exist."""
        seen = self.newest.version
        until(lambda: self.newest.version >= seen + versions)

    def pull(self, laptop: Laptop, name: str) -> VerifiedVersion:
        done = laptop.sync("pull", SYNC_USER_ID=name)
        assert done.returncode == 0, done.stderr
        return newest_verified(laptop.local)

    def forge(self, value: float, **lies: object) -> tuple[Contribution, bytes]:
        """Return an offer of Aaron's on the newest version, each of a new incarnation."""
        base = self.pull(self.aaron, "aaron")
        weights = decode(base.data, base.head.schema)
        delta = {name: torch.full_like(tensor, value) for name, tensor in weights.items()}
        data = encode(delta, half=True)
        self.offers += 1
        offer = Contribution(
            run_id=base.head.run_id, schema=base.head.schema,
            peer="aaron", incarnation=f"{self.offers:08x}", sequence=1,
            blob=sha256_hex(data), size=len(data),
            base_version=base.head.version, base_state=base.head.state,
            env_steps=1000, new_steps=1000, optimizer_steps=100,
        )  # fmt: skip
        return replace(offer, **lies), data

    def again(self, offer: Contribution, **lies: object) -> Contribution:
        """Return the offer under a new incarnation."""
        self.offers += 1
        return replace(offer, incarnation=f"{self.offers:08x}", **lies)

    def push(self, *files: tuple[str, bytes]) -> subprocess.CompletedProcess[bytes]:
        """Send files with Aaron's push key, without our software."""
        sent = b"".join(f"{name} {len(data)}\n".encode() + data for name, data in files)
        argv = [*self.aaron.ssh("push"), "cluster", "daddy push"]
        return subprocess.run(
            argv, input=sent, capture_output=True, timeout=patience.PATIENCE_S, check=False
        )

    def lay(self, *offers: tuple[Contribution, bytes]) -> None:
        """Push pairs of files; without bytes the record alone."""
        files = []
        for offer, data in offers:
            files += [(f"{box_name(offer)}.st", data)] * bool(data)
            files += [(f"{box_name(offer)}.json", offer.to_json_bytes())]
        done = self.push(*files)
        assert done.returncode == 0, done.stderr

    def do_as_aaron(self, script: str) -> None:
        """Run a shell script in Aaron's box, by his own account."""
        self.box.mkdir(exist_ok=True)
        for folder in (self.shared.root.parent, self.shared.root, self.shared.inbox):
            folder.chmod(0o711)
        self.box.chmod(0o777)
        uid = str(FRIEND)
        account = ["setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"] * AS_ROOT
        argv = [*account, "sh", "-ec", f"cd {self.box}; {script}"]
        subprocess.run(argv, timeout=patience.PATIENCE_S, check=True)

    def verdicts(self, *offers: Contribution) -> list[str]:
        """Wait until these offers are judged; return "" for a merged one, or its refusal."""
        names = [offer.incarnation for offer in offers]
        until(lambda: set(names) <= self._judged().keys())
        return [self._judged()[name] for name in names]

    def versions(self) -> list[Version]:
        """Return all versions; read only the records that are new."""
        store = Store(self.shared)
        for number in set(version_numbers(self.shared)) - self.records.keys():
            with suppress(WeightsError):  # no record: the socket of a test
                self.records[number] = store.version(number)
        return [self.records[number] for number in sorted(self.records)]

    def _judged(self) -> dict[str, str]:
        versions = self.versions()
        merged = {each.incarnation: "" for version in versions for each in version.inputs
                  if each.peer == "aaron"}  # fmt: skip
        refused = {each.incarnation: each.reason for version in versions
                   for each in version.refused if each.peer == "aaron"}  # fmt: skip
        return {**refused, **merged}

    def records_in_box(self) -> list[str]:
        return [path.name for path in self.box.glob("*.json")] if self.box.is_dir() else []


@pytest.fixture(scope="module")
def siege() -> Iterator[Siege]:
    """Start the run, wait for its first versions, and set up both laptops."""
    base = Path(tempfile.mkdtemp(prefix="daddy-live-", dir="/tmp"))
    base.chmod(0o755)
    try:
        with a_laptop(base) as anna:
            aaron = replace(anna, home=base / "aaron")
            aaron.home.mkdir()
            (anna.there / "private").write_text(PRIVATE)
            made = Siege(_person(anna), anna, aaron)
            try:
                done = made.person.run_controller("start")
                assert done.returncode == 0, done.stderr
                until(lambda: (Store(made.shared).newest() or 0) >= 2, 120)
                for laptop, name in ((anna, "anna"), (aaron, "aaron")):
                    laptop.append(laptop.sync("setup", SYNC_USER_ID=name).stdout)
                    done = laptop.sync("setup", SYNC_USER_ID=name)
                    assert f"push key: writes inbox/{name} alone" in done.stdout, done.stderr
                yield made
            finally:
                _stop(made.person)
    finally:
        shutil.rmtree(base)


def _person(account: Laptop) -> Person:
    folder, run_paths = account.there, RunPaths(account.there / "run")
    training = {
        "num_envs": 4, "vector_backend": "serial", "rollout": 256, "batch_size": 128,
        "total_steps": 50_000_000, "max_runtime_seconds": 1200,
    }  # fmt: skip
    settings = small_config(run_paths.root)
    settings["training"] |= training
    settings["slurm"] = {"time_limit": "0:01:30", "max_running": 1}
    settings["collaboration"] = {"sync_interval_steps": 2048}
    (folder / "run.json").write_text(json.dumps(settings))
    others = ("SLURM_", "SBATCH_", "SQUEUE_", "DADDY_")
    kept = {name: text for name, text in os.environ.items() if not name.startswith(others)}
    env = {**kept, "HOME": str(folder), "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return Person(ROOT, folder / "run.json", run_paths, env)


def _stop(person: Person) -> None:
    if person.run.intent.exists():
        done = person.run_controller("stop", "--now")
        assert done.returncode == 0, done.stderr


def test_a_claim_of_a_whole_runs_steps_ends_no_run(siege):
    offer, data = siege.forge(1e-4, env_steps=LIE, new_steps=LIE)
    siege.lay((offer, data))
    siege.verdicts(offer)
    version = siege.newest
    own = sum(steps for peer, steps in version.contributors.items() if peer.startswith("slot-"))
    assert version.contributors.get("aaron", 0) < LIE // 100
    assert version.fleet_steps <= 2 * own
    siege.goes_on()
    assert siege.person.status()["mode"] == "run"


def test_sixteen_bad_records_a_version_stop_no_merge(siege):
    good, data = siege.forge(1e-4)
    for _ in range(2):
        foreign = [siege.again(good, run_id="f00d" * 4) for _ in range(15)]
        coloured = siege.again(good, run_id="\x1b[31mall is well" * 20)
        siege.lay(*((offer, data) for offer in (*foreign, coloured)))
        until(lambda: not siege.records_in_box())
        siege.goes_on(1)
    assert all("another run" in reason for reason in siege.verdicts(*foreign))
    siege.goes_on()
    records = [path.read_text() for path in siege.shared.merged.glob("v*.json")]
    assert max(map(len, records)) < 16_384
    assert not any("f00df00d" in text or "[31m" in text for text in records)
    assert sum(author.startswith("aaron/") for author in siege.newest.consumed) <= 16


def test_links_and_files_through_them_are_refused(siege):
    aaron, private = siege.aaron, siege.aaron.there / "private"
    trap, evil = aaron.home / "trap", aaron.home / "authorized_keys2"
    trap.symlink_to(aaron.authorized.parent)
    evil.write_text("evil")
    assert aaron.rsync("push", "--links", str(trap), "cluster:/").returncode
    assert aaron.rsync("push", str(evil), "cluster:/trap/").returncode
    offer, _ = siege.forge(1e-4, size=len(PRIVATE))
    record = "0badcafe-000001-0123456789ab.json"
    siege.do_as_aaron(
        f"ln -s {private} {record}; ln -s {private} {box_name(offer)}.st;"
        f"ln -s {aaron.authorized.parent} trap; ln -s {siege.shared.merged} trap.json"
    )
    siege.lay((offer, b""))
    until(lambda: not siege.records_in_box())
    assert siege.verdicts(offer) != [""]
    siege.goes_on()
    assert private.read_text() == PRIVATE
    assert [path.name for path in aaron.authorized.parent.iterdir()] == ["authorized_keys"]
    kept = (path for path in files_below(siege.shared.root) if not path.is_symlink())
    assert not any(PRIVATE.encode() in read(path) for path in kept)


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if not path.is_dir()]


def read(path: Path) -> bytes:
    """Return the bytes of a file that the run may remove meanwhile."""
    with suppress(FileNotFoundError):
        return path.read_bytes()
    return b""


def test_a_socket_named_as_a_next_version_is_passed_over(siege):
    ahead = siege.shared.version(siege.newest.version + 1000)
    ssh = [*siege.aaron.ssh("tunnel"), "-o", "ExitOnForwardFailure=yes"]
    assert run([*ssh, "-R", f"{ahead}:127.0.0.1:9", "cluster", "true"]).returncode == 255
    assert not ahead.exists()
    number = siege.newest.version + 3
    path = siege.shared.version(number)
    os.mknod(path, stat.S_IFSOCK | 0o600)  # what the tunnel key's older line allows
    until(lambda: siege.newest.version > number + 1)
    path.unlink()
    history = read_history(siege.shared)
    assert history.chained, history.flaw
    assert number not in {version.version for version in history.versions}


def test_a_name_whose_line_is_not_installed_is_not_ok(siege):
    bob = replace(siege.aaron, home=siege.aaron.home.with_name("bob"))
    shutil.copytree(siege.aaron.home, bob.home, symlinks=True)
    said = bob.sync("setup", SYNC_USER_ID="bob").stdout
    assert "its line is for push aaron in" in said
    assert "not for push bob in" in said
    assert "ok push key" not in " ".join(said.split())


def test_an_honest_laptop_is_counted_beside_forty_offers_without_files(siege):
    good, _ = siege.forge(3e-4)
    siege.lay(*((siege.again(good), b"") for _ in range(40)))
    base = siege.pull(siege.anna, "anna")
    exchange = LaptopExchange(siege.anna.local, "anna", "0a0a0a0a", SystemClock())
    own = decode(base.data, base.head.schema)
    weights = exchange.join_fleet(lambda: own, None).weights
    assert "in the outbox" in exchange.publish(shifted(weights, 1e-4), 500, 20)
    assert siege.anna.sync("push").stdout == "pushed 1 contribution(s)\n"
    until(
        lambda: any(each.peer == "anna" for version in siege.versions() for each in version.inputs)
    )
    siege.pull(siege.anna, "anna")
    assert [receipt.accepted for receipt in exchange.receipts()] == [True]
    siege.do_as_aaron("rm -f *.json")


def test_ten_large_files_and_a_sparse_one_take_no_room(siege):
    offer, _ = siege.forge(4e-4)
    done = siege.push((f"{box_name(offer)}.st", bytes(BIG)))
    assert b"too many for one file" in done.stderr
    large = [siege.again(offer) for _ in range(10)]
    sparse = siege.again(offer, size=SPARSE)
    names = " ".join(f"{box_name(each)}.st" for each in large)
    records = siege.aaron.home / "records"
    records.mkdir()
    for each in (*large, sparse):
        (records / f"{box_name(each)}.json").write_bytes(each.to_json_bytes())
    siege.do_as_aaron(
        f"for name in {names}; do head -c {BIG} /dev/urandom > $name; done;"
        f"truncate -s {SPARSE} {box_name(sparse)}.st; cp {records}/* ."
    )
    assert "" not in siege.verdicts(*large, sparse)
    until(lambda: kept_bytes(siege) < BIG)
    siege.goes_on()
    assert kept_bytes(siege) < BIG


def kept_bytes(siege: Siege) -> int:
    """Return the size of all files in boxes and quarantine."""
    total = 0
    for path in files_below(siege.shared.inbox) + files_below(siege.shared.quarantine):
        with suppress(FileNotFoundError):
            total += path.lstat().st_size
    return total


def test_of_four_replays_of_the_same_bytes_one_is_counted(siege):
    offer, data = siege.forge(5e-4)
    replays = [offer, *(siege.again(offer) for _ in range(3))]
    verdicts = []
    for pair in (replays[:2], replays[2:]):
        siege.lay(*((each, data) for each in pair))
        verdicts += siege.verdicts(*pair)
    assert verdicts.count("") == 1, verdicts
