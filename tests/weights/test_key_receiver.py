"""Escapes from a laptop's keys on a real sshd: requests and files of a hostile client."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from Daddy.weights.laptop import key_receiver
from Daddy.weights.laptop.key_receiver import MARK, DeniedError
from Daddy.weights.laptop.rsync_sftp import ReceiverTransport
from Daddy.weights.laptop.ssh_keys import key_line, make_missing_keys
from Daddy.weights.laptop.ssh_login import Remote
from tests.patience import PATIENCE_S
from tests.weights.laptop_home import a_laptop

FEATURES = "e.LsfxCIvu"
STATE = "0123abcd-000001-0123456789ab.st"
RECORD = STATE.replace(".st", ".json")
SECRET = "the account's secret"


@pytest.fixture(scope="module")
def laptop(tmp_path_factory):
    with a_laptop(tmp_path_factory.mktemp("laptop")) as found:
        make_missing_keys(found.keys, "anna")
        command = f"{sys.executable} -I {key_receiver.__file__}"
        lines = [
            key_line(
                name, (found.keys / f"{name}.pub").read_text(), str(found.shared), "anna", command
            )
            for name in ("pull", "push")
        ]
        for folder in ("wan/claims", "inbox", "receipts/bert", "receipts/anna"):
            (found.shared / folder).mkdir(parents=True)
        (found.there / ".ssh").mkdir()
        found.authorized.write_text("\n".join(lines) + "\n")
        yield found


@pytest.fixture
def box(laptop):
    """Return anna's box, empty, beside files that no key may touch."""
    (laptop.there / "private").write_text(SECRET)
    (laptop.shared / "wan" / "HEAD.json").write_text('{"size": 4096}')
    (laptop.shared / "receipts" / "bert" / "r.json").write_text(SECRET)
    for name, target in (("link", "private"), ("up", ".")):
        link = laptop.shared / "wan" / name
        link.unlink(missing_ok=True)
        link.symlink_to(laptop.there / target)
    folder = laptop.shared / "inbox" / "anna"
    if folder.is_symlink():
        folder.unlink()
    folder.mkdir(exist_ok=True)
    for path in (*folder.iterdir(), *laptop.shared.glob("inbox/.keys/*")):
        path.unlink()
    return folder


def ask(laptop, key: str, request: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    argv = [*laptop.ssh(key), "cluster", request]
    return subprocess.run(argv, input=stdin, capture_output=True, timeout=PATIENCE_S, check=False)


def tree(folder: Path) -> dict[str, object]:
    """Return every path below a folder but the notes on keys, with its content or target."""
    return {
        str(path): path.readlink() if path.is_symlink() else path.is_file() and path.read_bytes()
        for path in folder.rglob("*")
        if ".keys" not in path.parts
    }


PULLS = {
    "another folder": f"rsync --server --sender -te{FEATURES[1:]} . /private",
    "up and out": "rsync --server --sender -te.LsfxCIvu . /wan/../../../private",
    "a link": "rsync --server --sender -te.LsfxCIvu . /wan/link",
    "through a link": "rsync --server --sender -te.LsfxCIvu . /wan/up/private",
    "links followed": "rsync --server --sender -tLe.LsfxCIvu . /wan/link",
    "links copied": "rsync --server --sender -te.LsfxCIvu --copy-unsafe-links . /wan/link",
    "a list of files": "rsync --server --sender -te.LsfxCIvu --files-from=/etc/passwd . /wan/x",
    "arguments on stdin": "rsync --server --sender -ste.LsfxCIvu",
    "a log elsewhere": "rsync --server --sender -te.LsfxCIvu --log-file=private . /wan/HEAD.json",
    "two paths": "rsync --server --sender -te.LsfxCIvu . /wan/HEAD.json ../../private",
    "a daemon": "rsync --server --daemon --config=/tmp/evil .",
    "a receiver": "rsync --server -lte.LsfxCIvu . /wan/",
    "removal": "rsync --server --sender -te.LsfxCIvu --remove-source-files . /wan/HEAD.json",
    "a shell behind": "daddy read wan/HEAD.json 0; touch ran",
    "a shell within": "rsync --server --sender -te.LsfxCIvu . /wan/$(touch${IFS}ran)",
    "read up and out": "daddy read wan/../../../private 0",
    "read a link": "daddy read wan/link 0",
    "read through a link": "daddy read wan/up/private 0",
    "read another's receipts": "daddy read receipts/bert/r.json 0",
    "list all": "daddy list .",
    "list through a link": "daddy list wan/up",
    "push with the pull key": "daddy push",
    "SFTP": "/usr/lib/openssh/sftp-server",
    "nothing": "true",
}  # fmt: skip


@pytest.mark.parametrize("request_", PULLS.values(), ids=PULLS.keys())
def test_a_hostile_pull_reads_and_writes_nothing(laptop, box, request_):
    before = tree(laptop.there)
    done = ask(laptop, "pull", request_)
    assert done.returncode
    assert SECRET.encode() not in done.stdout + done.stderr
    assert tree(laptop.there) == before
    assert re.search(rb"daddy-receiver: |is a link", done.stderr), done.stderr


def offer(*files: tuple[str, bytes]) -> bytes:
    return b"".join(f"{name} {len(data)}\n".encode() + data for name, data in files)


PUSHES = {
    "a name that goes up": offer(("../../../.ssh/authorized_keys2", b"x")),
    "an absolute name": offer(("/tmp/daddy-was-here", b"x")),
    "a hidden name": offer((".part-1", b"x")),
    "a name of 254 bytes": offer((250 * "a" + ".json", b"x")),
    "a name in another script": offer(("0123abcd-00000\u0661-0123456789ab.st", b"x")),
    "a file and more than it has": f"{STATE} 3\n".encode() + b"abcdef",
    "a file and less than it has": f"{STATE} 9\n".encode() + b"abc",
    "a state of a gibibyte": f"{STATE} {1 << 30}\n".encode(),
    "a record of a mebibyte": f"{RECORD} {1 << 20}\n".encode(),
    "a negative size": f"{STATE} -1\n".encode(),
    "an endless line": 10_000 * b"x",
}


@pytest.mark.parametrize("sent", PUSHES.values(), ids=PUSHES.keys())
def test_a_lying_push_writes_at_most_its_own_whole_file(laptop, box, sent):
    before = tree(laptop.there)
    done = ask(laptop, "push", "daddy push", sent)
    assert done.returncode
    assert b"daddy-receiver: " in done.stderr
    after = tree(laptop.there)
    whole = {str(box / STATE): b"abc"} if b"abcdef" in sent else {}
    assert after == {**before, **whole}


@pytest.mark.parametrize(
    "request_", ["rsync --server -lte.LsfxCIvu . /", "scp -t .", "daddy read wan/HEAD.json 0", "sh"]
)
def test_a_push_key_understands_nothing_else(laptop, box, request_):
    before = tree(laptop.there)
    assert ask(laptop, "push", request_, b"\0").returncode
    assert tree(laptop.there) == before


def test_a_pushed_link_leads_nowhere(laptop, box):
    """The old escape: a real rsync pushes a link, then a file through it."""
    trap = laptop.home / "trap"
    trap.symlink_to(laptop.there / ".ssh")
    assert laptop.rsync("push", "--links", str(trap), "cluster:/").returncode
    evil = laptop.home / "authorized_keys2"
    evil.write_text("evil")
    assert laptop.rsync("push", str(evil), "cluster:/trap/").returncode
    assert list(box.iterdir()) == []
    assert [path.name for path in laptop.authorized.parent.iterdir()] == ["authorized_keys"]


def test_a_box_that_is_a_link_takes_nothing(laptop, box):
    """A key with an older line may have left one."""
    box.rmdir()
    box.symlink_to(laptop.there / ".ssh")
    before = tree(laptop.there)
    assert ask(laptop, "push", "daddy push", offer((STATE, b"abc"))).returncode
    assert tree(laptop.there) == before


def test_no_file_is_written_over(laptop, box):
    (box / STATE).write_bytes(b"first")
    done = ask(laptop, "push", "daddy push", f"{STATE} 6\n".encode())
    assert done.stdout.decode().splitlines() == [f"{MARK}have {STATE}", f"{MARK}end"]
    assert (box / STATE).read_bytes() == b"first"


def test_a_refusal_is_one_sentence_and_a_note(laptop, box):
    done = ask(laptop, "push", "daddy push", offer(("<script>", b"x")))
    assert done.stderr == b"daddy-receiver: refused: that is no name of a contribution\n"
    ask(laptop, "pull", "daddy list /etc")
    note = json.loads((laptop.shared / "inbox" / ".keys" / "anna.json").read_text())
    assert note["refused"] == 2
    assert note["last"] == "this key reads wan/ and receipts/anna alone"


def transport(laptop, key: str) -> ReceiverTransport:
    within = "inbox/anna" if key == "push" else ""
    remote = Remote("cluster", laptop.login.user, str(laptop.shared), str(laptop.login.config),
                    key=str(laptop.keys / key), within=within, peer="anna")  # fmt: skip
    return ReceiverTransport(remote)


def test_files_go_both_ways_whole_and_an_interrupted_fetch_goes_on(laptop, box, tmp_path):
    sent = tmp_path / STATE
    sent.write_bytes(bytes(range(256)) * 8)
    pushing, pulling = transport(laptop, "push"), transport(laptop, "pull")
    pushing.send([sent], "inbox/anna")
    pushing.send([sent], "inbox/anna")
    pushing.close()
    assert (box / STATE).read_bytes() == sent.read_bytes()
    assert (box / STATE).stat().st_mode & 0o777 == 0o600
    (laptop.shared / "wan" / "kf-1.st").write_bytes(b"0123456789")
    into = tmp_path / "incoming"
    (into / ".part").mkdir(parents=True)
    (into / ".part" / "kf-1.st").write_bytes(b"abcd")
    assert pulling.fetch("wan/kf-1.st", into, 10)
    assert (into / "kf-1.st").read_bytes() == b"abcd456789", "only what was missing came"
    assert not pulling.fetch("wan/none.st", into, 10)
    (laptop.shared / "receipts" / "anna" / "x.json").write_text("{}")
    pulling.fetch_small("receipts/anna", tmp_path / "receipts")
    assert [path.name for path in (tmp_path / "receipts").glob("*.json")] == ["x.json"]
    pulling.close()


FORMS = {
    "3.5.0": "rsync --server --sender -te.LsfxCIvu --timeout=30 . /wan/HEAD.json",
    "2.6.9": "rsync --server --sender -t --timeout=30 . /wan/HEAD.json",
    "a release to come": "rsync --server --sender -te32.1iLsfxCIvuq --timeout=30 . /wan/HEAD.json",
    "openrsync": "rsync --server --sender -t --timeout=30 --max-size=65536 . /wan/HEAD.json",
}


@pytest.mark.parametrize("request_", FORMS.values(), ids=FORMS.keys())
def test_words_of_an_honest_rsync_are_built_anew(request_):
    words, parts = key_receiver.rsync_words(request_, "anna")
    assert (words[:3], words[-2:]) == (["rsync", "--server", "--sender"], [".", "wan/HEAD.json"])
    assert parts == ["wan", "HEAD.json"]
    folder = request_.replace(" -t", " -tr").replace("wan/HEAD.json", "receipts/anna/")
    words, _ = key_receiver.rsync_words(folder, "anna")
    assert words[3].startswith("-tr")
    assert words[-1] == "receipts/anna/"


@pytest.mark.parametrize(
    ("used", "today", "said"),
    [
        ((key_receiver.MOST_FILES, 0, 0), 0, "box is full"),
        ((1, key_receiver.BOX_BYTES, 0), 0, "box is full"),
        ((1, 0, 4 * key_receiver.BOX_BYTES), 0, "all laptops are full"),
        ((1, 0, 0), 32 * key_receiver.BOX_BYTES, "today"),
    ],
)
def test_bytes_are_bounded_by_box_run_and_day(used, today, said):
    key_receiver.refuse_excess(100, 100, (1, 0, 0), 0)
    with pytest.raises(DeniedError, match=said):
        key_receiver.refuse_excess(100, 100, used, today)


def test_the_file_is_python_3_6():
    ast.parse(Path(key_receiver.__file__).read_text(), feature_version=(3, 6))
