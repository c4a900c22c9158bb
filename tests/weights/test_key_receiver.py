"""Escapes from a laptop's keys on a real sshd: requests and files of a hostile client."""

import ast
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.laptop import key_receiver
from Daddy.weights.laptop.key_receiver import MARK, DeniedError
from Daddy.weights.laptop.rsync_sftp import ReceiverTransport
from Daddy.weights.laptop.ssh_keys import key_line, make_missing_keys
from Daddy.weights.laptop.ssh_login import Remote
from Daddy.weights.laptop_attachments import pending_attachments
from Daddy.weights.merge.contributions import list_box_records, read_box
from Daddy.weights.store.weight_store import Store
from tests.patience import PATIENCE_S, until
from tests.weights.laptop_home import a_laptop

STATE = "0123abcd-000001-0123456789ab.st"
RECORD = STATE.replace(".st", ".json")
SECRET = "the account's secret"


@pytest.fixture(scope="module")
def laptop(tmp_path_factory):
    accepted = "AcceptEnv LANG LC_* PYTHON*"
    with a_laptop(tmp_path_factory.mktemp("laptop"), accepted) as found:
        make_missing_keys(found.keys, "anna")
        python = Path(sys.base_prefix, "bin", "python3")  # as there: no packages, a quick start
        command = f"{python} -I {key_receiver.__file__}"
        remote = Remote("cluster", "", str(found.shared), peer="anna")
        lines = [
            key_line(name, (found.keys / f"{name}.pub").read_text(), remote, command)
            for name in ("pull", "push")
        ]
        for folder in ("wan/claims", "inbox", "receipts/bert", "receipts/anna"):
            (found.shared / folder).mkdir(parents=True)
        (found.there / ".ssh").mkdir()
        found.authorized.write_text("\n".join(lines) + "\n")
        with connections(found):
            yield found


@contextmanager
def connections(laptop) -> Iterator[None]:
    """Hold one connection for each key: each request is a session of its own over it."""
    with TemporaryDirectory() as folder:
        laptop.sockets = Path(folder)
        for key in ("pull", "push"):
            master = ("-M", "-N", "-f", "-S", str(laptop.sockets / key))
            subprocess.run(
                [*laptop.ssh(key), *master, "cluster"],
                check=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        yield
        for key in ("pull", "push"):
            end = ("ssh", "-S", str(laptop.sockets / key), "-O", "exit", "cluster")
            subprocess.run(end, check=True, timeout=PATIENCE_S, capture_output=True)


@pytest.fixture
def box(laptop):
    """Return anna's box, empty, beside files that no key may touch."""
    (laptop.there / "private").write_text(SECRET)
    (laptop.shared / "wan" / "HEAD.json").write_text('{"size": 4096}')
    (laptop.shared / "receipts" / "bert" / "r.json").write_text(SECRET)
    (laptop.shared / "wan" / "pipe").unlink(missing_ok=True)
    os.mkfifo(laptop.shared / "wan" / "pipe")
    (laptop.shared / "wan" / ".hidden").write_text(SECRET)
    (laptop.shared / "wan" / "socket").unlink(missing_ok=True)
    os.mknod(laptop.shared / "wan" / "socket", stat.S_IFSOCK)
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


def ask(
    laptop, key: str, request: str, stdin: bytes = b"", *options: str
) -> subprocess.CompletedProcess[bytes]:
    over = options or ("-S", str(laptop.sockets / key))  # options are for a connection of its own
    argv = [*laptop.ssh(key), *over, "cluster", request]
    return subprocess.run(argv, input=stdin, capture_output=True, timeout=PATIENCE_S, check=False)


def tree(folder: Path) -> dict[str, object]:
    """Return every path below a folder but the notes on keys, with its content or target."""
    return {
        str(path): path.readlink() if path.is_symlink() else path.is_file() and path.read_bytes()
        for path in folder.rglob("*")
        if ".keys" not in path.parts
    }


PULLS = {
    "rsync": ("rsync --server --sender -te.LsfxCIvu . /wan/HEAD.json", ""),
    "rsync, all of a folder": ("rsync --server --sender -tre.LsfxCIvu . wan/", ""),
    "a daemon": ("rsync --server --daemon --config=/tmp/evil .", ""),
    "a receiver": ("rsync --server -lte.LsfxCIvu . /wan/", ""),
    "a shell behind": ("daddy pull; touch ran", ""),
    "a shell within": ("daddy pull $(touch${IFS}ran)", ""),
    "another folder": ("daddy pull", "read private 0\n"),
    "an absolute path": ("daddy pull", "read /etc/passwd 0\n"),
    "up and out": ("daddy pull", "read wan/../../../private 0\n"),
    "a link": ("daddy pull", "read wan/link 0\n"),
    "through a link": ("daddy pull", "read wan/up/private 0\n"),
    "another's receipts": ("daddy pull", "read receipts/bert/r.json 0\n"),
    "a folder as a file": ("daddy pull", "read wan/claims 0\n"),
    "a pipe": ("daddy pull", "read wan/pipe 0\n"),
    "no offset": ("daddy pull", "read wan/HEAD.json -1\n"),
    "two paths": ("daddy pull", "read wan/HEAD.json ../../private 0\n"),
    "an endless line": ("daddy pull", "read " + 10_000 * "x"),
    "list all": ("daddy pull", "list .\n"),
    "list through a link": ("daddy pull", "list wan/up\n"),
    "list another's receipts": ("daddy pull", "list receipts/bert\n"),
    "push with the pull key": ("daddy push", ""),
    "back out of the own receipts": ("daddy pull", "read receipts/anna/../bert/r.json 0\n"),
    "a name with a zero byte": ("daddy pull", "read wan/HEAD.json\0/../../private 0\n"),
    "a hidden name": ("daddy pull", "read wan/.hidden 0\n"),
    "a socket": ("daddy pull", "read wan/socket 0\n"),
    "a second line in the request": ("daddy pull\ncat private", ""),
    "SFTP": ("/usr/lib/openssh/sftp-server", ""),
    "scp": ("scp -f private", "\0"),
    "nothing": ("true", ""),
}


@pytest.mark.parametrize(("request_", "lines"), PULLS.values(), ids=PULLS.keys())
def test_a_hostile_pull_reads_and_writes_nothing(laptop, box, request_, lines):
    before = tree(laptop.there)
    done = ask(laptop, "pull", request_, lines.encode())
    assert done.returncode
    assert SECRET.encode() not in done.stdout + done.stderr
    assert done.stdout == b""
    assert tree(laptop.there) == before
    assert done.stderr.startswith(b"daddy-receiver: "), done.stderr


def test_filter_rules_of_a_lying_rsync_read_no_file(laptop, box):
    """An rsync that sends reads the files that its client's rules name, and prints their lines."""
    private = laptop.there / "private"
    done = laptop.rsync("pull", "-rt", f"--filter=: {private}", "cluster:/wan/", f"{laptop.home}/")
    assert done.returncode
    assert "daddy-receiver: refused" in done.stderr
    assert not re.search(f"{SECRET}|filter rule", done.stderr)


def test_one_session_answers_many_requests(laptop, box):
    """No request leaves a file open."""
    done = ask(laptop, "pull", "daddy pull", 2_000 * b"read wan/HEAD.json 0\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b'{"size": 4096}') == 2_000


def offer(*files: tuple[str, bytes]) -> bytes:
    return b"".join(f"{name} {len(data)}\n".encode() + data for name, data in files)


RSYNC_LIST = b"\x1b\0\0\0\x18\x07../evil" + 3 * b"\0\0\0\0" + b"\0"
"""Beginning of rsync's protocol 27, as one that sends a file above its folder speaks it."""

PUSHES = {
    "a name that goes up": offer(("../../../.ssh/authorized_keys2", b"x")),
    "a list that begins well": offer((STATE, b"abc"), ("../../../.ssh/authorized_keys2", b"x")),
    "a name twice": offer((STATE, b"abc"), (STATE, b"abcdef")),
    "a name and bytes in another's": offer((STATE, b"abc"), (f"{STATE} 3\n../../evil", b"x")),
    "a list of rsync's": RSYNC_LIST,
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
    whole = {str(box / STATE): b"abc"} if f"{STATE} 3\nabc".encode() in sent else {}
    assert after == {**before, **whole}


@pytest.mark.parametrize("key", ["pull", "push"])
@pytest.mark.parametrize(
    ("way", "refused"),
    [
        ("-W127.0.0.1:{port}", "administratively prohibited"),
        ("-R{there}/socket:127.0.0.1:{port}", "remote port forwarding failed"),
        ("-Rlocalhost:0:127.0.0.1:{port}", "remote port forwarding failed"),
    ],
)
def test_ssh_forwards_nothing_for_a_key(laptop, box, key, way, refused):
    """The first is also how ProxyJump reaches another machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        option = way.format(port=server.getsockname()[1], there=laptop.there)
        strict = ("-o", "ExitOnForwardFailure=yes", option)
        before = tree(laptop.there)
        done = ask(laptop, key, f"daddy {key}", b"", *strict)
        assert done.returncode == 255
        assert refused.encode() in done.stderr
        assert tree(laptop.there) == before
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize("key", ["pull", "push"])
def test_ssh_grants_a_key_its_command_and_nothing_beside_it(laptop, box, key):
    """No agent, no display, no terminal and no ``~/.ssh/rc``."""
    done = ask(laptop, key, f"daddy {key}", b"", "-v", "-A", "-X", "-tt")
    granted = re.findall(rb"Remote: .*key options: (.*?)\r?\n", done.stderr)
    assert set(granted) == {b"command"}, done.stderr
    assert b"PTY allocation request failed" in done.stderr


@pytest.mark.parametrize("key", ["pull", "push"])
def test_python_obeys_no_variable_of_a_client(laptop, box, key):
    """Some sites accept more variables than OpenSSH does by itself."""
    planted = laptop.there / "planted"
    planted.mkdir(exist_ok=True)
    (planted / "json.py").write_text(f"open({str(laptop.there / 'ran')!r}, 'w')")
    sent = f"SetEnv=PYTHONPATH={planted} PYTHONSTARTUP={planted}/json.py PYTHONINSPECT=1"
    assert ask(laptop, key, f"daddy {key}", b"", "-o", sent).returncode == 0
    assert not (laptop.there / "ran").exists()


@contextmanager
def conversation(laptop, key: str) -> Iterator[Callable[[str], str]]:
    """Yield a function that sends a line to the receiver and returns its answer's last line."""
    argv = [*laptop.ssh(key), "cluster", f"daddy {key}"]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as ssh:

        def say(line: str, last: str = "") -> str:
            ssh.stdin.write(line)
            ssh.stdin.flush()
            return next((text for text in ssh.stdout if last in text), "").removeprefix(MARK)

        yield say
        ssh.stdin.close()


def test_a_file_that_becomes_a_link_after_the_look_is_not_read(laptop, box):
    name = laptop.shared / "wan" / "swapped"
    name.write_text("fair")
    with conversation(laptop, "pull") as say:
        assert say("list wan\n", "swapped") == "4 swapped\n"
        name.unlink()
        name.symlink_to(laptop.there / "private")
        assert say("read wan/swapped 0\n", SECRET) == ""
    name.unlink()


def test_a_box_that_becomes_a_link_after_the_look_takes_no_file_elsewhere(laptop, box):
    keys = tree(laptop.authorized.parent)
    with conversation(laptop, "push") as say:
        assert say(f"{STATE} 3\n") == f"send {STATE}\n"
        box.rename(box.with_name("moved"))
        box.symlink_to(laptop.authorized.parent)
        assert say("abc") == f"took {STATE}\n"
    assert tree(laptop.authorized.parent) == keys
    assert (box.with_name("moved") / STATE).read_bytes() == b"abc"
    shutil.rmtree(box.with_name("moved"))


@pytest.mark.parametrize(
    "request_", ["rsync --server -lte.LsfxCIvu . /", "scp -t .", "daddy pull", "sh"]
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
    ask(laptop, "pull", "daddy pull", b"list /etc\n")
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


@pytest.mark.parametrize("name", [RECORD, f"0123abcd-000001-{'0' * 64}.claim"])
def test_the_run_leaves_a_half_sent_file_alone(laptop, box, name):
    store = Store(SharedPaths(laptop.shared))
    with conversation(laptop, "push") as say:
        assert say(f"{name} 3\n") == f"send {name}\n"
        assert until(lambda: [*box.glob(".part-*")])
        assert list(read_box(store, list_box_records(box))) == []
        assert pending_attachments(store) == {}
        assert say("abc") == f"took {name}\n"
    assert (box / name).read_bytes() == b"abc"


def test_a_file_that_the_run_takes_away_hides_no_other(laptop, box):
    for name in (STATE, RECORD):
        (box / name).write_bytes(b"abc")
    folder = os.open(box, os.O_RDONLY)
    sizes = key_receiver._sizes(folder)
    assert next(sizes) == 3
    (box / STATE).unlink()
    (box / RECORD).unlink()
    assert list(sizes) == []
    os.close(folder)


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
