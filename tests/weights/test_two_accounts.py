"""Two accounts of one machine, real learners: umask 077, closed homes, a friend turning hostile."""

import contextlib
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

import pytest

from Daddy.core.errors import ExitCode
from Daddy.weights.store.rebuild_version import rebuild_state
from Daddy.weights.store.weight_store import Store
from scripts.version_history import read_history
from tests.patience import PATIENCE_S
from tests.weights.accounts import FRIEND, OWNER, ROOT, Account

HOSTILE = """
import os, pathlib, sys
os.umask(0o022)  # it is all to be read
anna = pathlib.Path(sys.argv[1])
slot = anna / "peers" / "anna.slot-1"
slot.mkdir(exist_ok=True)
real = sorted(anna.glob("peers/anna.slot-0/*"))[0]
for number, kind in enumerate(["link", "pipe", "sparse", "pickle", "elsewhere"]):
    folder = slot / f"{number:08x}"
    if kind == "elsewhere":
        folder.symlink_to("/proc/self")
        continue
    folder.mkdir()
    os.mkfifo(folder / "hb.json")
    path = folder / "000001.json"
    if kind == "link":
        path.symlink_to("/etc/shadow")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "sparse":
        with path.open("wb") as stream:
            stream.truncate(10 << 30)
    else:
        path.write_bytes(b"cos\\nsystem\\n(S'touch /tmp/owned'\\ntR.")
for number in range(100_000 if len(sys.argv) > 2 else 2_000):
    (anna / "peers" / f"x{number}").touch()
    (slot / f"x{number}").touch()
"""


@pytest.fixture
def accounts():
    base = Path(tempfile.mkdtemp(prefix="daddy-two-accounts-"))
    base.chmod(0o755)
    (base / "python").mkdir()
    owner = Account(base / "owner", OWNER, 0o022).settle()
    friend = Account(base / "anna", FRIEND, 0o077, str(owner.shared.root)).settle()
    try:
        yield owner, friend
    finally:
        for entry in (owner, friend):
            entry.kill()
        shutil.rmtree(base)


def wait_until(true, *children):
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        for child in children:
            assert child.poll() is None, child.communicate()[0]
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.2)


def versions(owner: Account) -> int:
    with contextlib.suppress(OSError):
        return Store(owner.shared).newest() or 0
    return 0


def contributors(owner: Account) -> list[str]:
    return read_history(owner.shared).contributors


def owners_below(folder: Path) -> set[int]:
    found = set()
    for path in [folder, *folder.rglob("*")]:
        with contextlib.suppress(FileNotFoundError):
            found.add(path.lstat().st_uid)
    return found


def test_two_accounts_learn_one_policy_and_neither_writes_at_the_others(accounts):
    owner, friend = accounts
    first = owner.learner()
    wait_until(lambda: versions(owner) >= 1, first)
    # closed homes are said by name, each with the line to type
    if ROOT:
        code, said = friend.learn_briefly()
        assert code == ExitCode.WEIGHTS, said
        assert f"chmod go+x {owner.home}" in said
    owner.home.chmod(0o711)
    if ROOT:  # the run itself is closed, whatever the owner's umask
        assert owner.run.stat().st_mode & 0o777 == 0o700
        code, said = friend.learn_briefly()
        line = f"chmod go+x {owner.run} ; chmod -R go+rX {owner.shared.root}"
        assert line in said
        assert os.system(line) == 0
    code, said = friend.learn_briefly()
    assert code == ExitCode.WEIGHTS, said
    assert f"friends add YOUR-NAME {friend.shared.root} --of {owner.shared.root}" in said
    line = ("-m", "Daddy.weights.friends", "add", "anna", str(friend.shared.root),
            "--of", str(owner.shared.root))  # fmt: skip
    if ROOT:
        code, said = owner.does(*line)
        assert code != 0
        assert "chmod go+x" in said
    friend.home.chmod(0o711)
    friend.run.chmod(0o711)
    code, said = owner.does(*line)
    assert code == ExitCode.DONE, said
    if ROOT:  # versions of the meantime are closed; those that began after it are open
        assert f"chmod -R go+rX {owner.shared.root}" in said
        seen = versions(owner)
        wait_until(lambda: versions(owner) >= seen + 2, first)
        assert os.system(f"chmod -R go+rX {owner.shared.root}") == 0
        friend.home.chmod(0o700)
        _, said = owner.does("-m", "Daddy.weights.friends", "list", "--of", str(owner.shared.root))
        assert f"ask for chmod go+x {friend.home}" in said
        friend.home.chmod(0o711)
    # both learn: the friend under umask 077
    second = friend.learner()
    wait_until(lambda: "anna.slot-0" in contributors(owner), first, second)
    seen = versions(owner)
    wait_until(lambda: versions(owner) >= seen + 2, first, second)
    assert {"slot-0", "anna.slot-0"} <= set(contributors(owner))
    for entry in (owner, friend):
        place = str(entry.shared.root)
        code, page = entry.does("-m", "Daddy.weights.status", place)
        assert code == ExitCode.DONE, page
        assert "2 jobs at work" in page
        assert {"slot-0", "anna.slot-0"} <= set(page.split())
    # neither has written at the other's, nor can
    assert owners_below(owner.home) == {OWNER}
    assert owners_below(friend.home) == {FRIEND}
    if ROOT:
        for item, other in ((owner, friend), (friend, owner)):
            for place in (other.shared.root, other.shared.blobs, other.shared.peers):
                code, said = item.does("-c", f"open({str(place / 'x')!r}, 'w')")
                assert code != 0
                assert "PermissionError" in said
    # the friend turns hostile, the owner goes on
    second.send_signal(signal.SIGTERM)
    second.communicate(timeout=PATIENCE_S)
    code, said = friend.does("-c", HOSTILE, str(friend.shared.root))
    assert code == 0, said
    seen = versions(owner)
    wait_until(lambda: versions(owner) >= seen + 3, first)
    wait_until(lambda: "holds more than 256 names" in told_by(owner), first)
    first.send_signal(signal.SIGTERM)
    out, _ = first.communicate(timeout=PATIENCE_S)
    assert first.returncode == ExitCode.DRAINED, out
    history, store = read_history(owner.shared), Store(owner.shared)
    assert history.chained
    assert history.contributors == ["anna.slot-0", "slot-0"]
    assert rebuild_state(store, history.versions[-1]) == store.read_blob(history.versions[-1].state)
    assert owners_below(owner.home) == {OWNER}
    assert told_by(owner).count("holds more than 256 names") == 1


def told_by(account) -> str:
    return "".join(path.read_text() for path in (account.run / "events").glob("learner-*.jsonl"))
