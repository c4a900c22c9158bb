"""Forced command of a laptop's pull or push key, as one file for Python 3.6 and newer.

``setup`` and ``start`` copy this file to ``~/.config/daddy/receiver.py`` on the cluster; a key's
line in ``authorized_keys`` runs ``python3 -I receiver.py pull|push FOLDER PEER [RUN]``. sshd passes
the client's words in ``SSH_ORIGINAL_COMMAND``; each has to be one of three. "daddy push" writes new
files with known names into ``inbox/PEER``, within byte limits. With RUN, the ``shared_weights`` of
a run of another account, that account can read the box, and what the run has judged is removed from
it. "daddy pull" reads files of ``wan/`` and ``receipts/PEER``. No symbolic link below FOLDER is
followed and no program is run: an rsync that sends would obey filter rules of its client, which
make it read, and print, any file of the account. A refusal is one sentence on stderr and a note in
``inbox/.keys/PEER.json``.
"""

import fcntl
import io
import json
import os
import re
import signal
import stat
import sys
import time
from contextlib import suppress
from typing import Iterator, cast  # noqa: UP035 - Python 3.6

MARK = "daddy-receiver 1 "
"""Begin of each answer on stdout: a login shell may print text of its own before it."""
NAME = "daddy name; echo daddy-ran-this"
"""Request for purpose, peer and folder; the second part shows a key whose shell runs commands."""
QUIET_S = 60
"""Seconds without a byte from the client after which the kernel ends this process."""
CHUNK = 1 << 16
RECORD_BYTES = 1 << 16
MOST_FILES = 1024
MOST_LISTED = 4096
BOX_BYTES, FILE_BYTES = 256 << 20, 1 << 30
BOXES, DAYS = 4, 32
"""Bytes of one box (at least four files), of one file; all boxes together may hold four times, one
key may send in a day 32 times the bytes of a box."""
OLD_S = 7 * 86400
"""Seconds after which a file leaves a box that its run only reads, by the clock of this machine."""
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
READ_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC

_SENT = re.compile(r"[0-9a-f]{8}-[0-9]{6}-(?:[0-9a-f]{12}\.(?:st|json)|[0-9a-f]{64}\.claim)")
_OFFER = re.compile(r"(\S{1,100}) ([0-9]{1,12})\n")
_READ = re.compile(r"read (\S{1,200}) ([0-9]{1,12})\n")
_LIST = re.compile(r"list (\S{1,200})\n")
FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class DeniedError(Exception):
    """A request that this key may not make; the text is the sentence for its sender."""


def main(arguments: "list[str]", request: str) -> int:
    """Answer one request; return 0, or 1 after a sentence on stderr."""
    if len(arguments) not in (3, 4):
        sys.stdout.write(
            "usage: python3 -I receiver.py pull|push FOLDER PEER [RUN]\n\n" + (__doc__ or "")
        )
        return 0 if set(arguments) & {"-h", "--help"} else 2
    purpose, folder, peer, *joined = arguments
    os.umask(0o022 if joined else 0o077)
    signal.alarm(QUIET_S)
    try:
        root, *run = [os.open(each, READ_FOLDER) for each in (folder, *joined)]
    except OSError as error:
        return _end(f"no folder {error.filename}")
    try:
        if request == NAME:
            _answer(" ".join((purpose, peer, folder, *joined)))
        elif request != "daddy " + purpose:
            raise DeniedError(f"this key may {purpose} alone")
        elif purpose == "push":
            receive(root, peer, *run)
        else:
            serve(root, peer)
    except DeniedError as refusal:
        with suppress(OSError, DeniedError):
            Account(root, peer).note_refusal(str(refusal))
        return _end(f"refused: {refusal}")
    except EOFError:
        return _end("the connection ended early")
    except OSError as error:
        return _end(f'"{folder}": {error.strerror}')
    return 0


def _end(sentence: str) -> int:
    sys.stderr.write(f"daddy-receiver: {sentence}\n")
    return 1


def _answer(text: str) -> None:
    sys.stdout.write(MARK + text + "\n")
    sys.stdout.flush()


def _enter(folder: int, *names: str, make: bool = False) -> int:
    """Open a folder below ``folder``; no part of the way may be a link."""
    root = folder
    for name in names:
        try:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=folder)
            below = os.open(name, READ | os.O_DIRECTORY, dir_fd=folder)
        finally:
            if folder != root:
                os.close(folder)
        folder = below
    return folder


# -- pull


def serve(root: int, peer: str) -> None:
    """Answer lines from stdin: "read PATH OFFSET" by a file's bytes, "list FOLDER" by its names."""
    line = _read_line()
    while line:
        signal.alarm(QUIET_S)
        read, listed = _READ.fullmatch(line), _LIST.fullmatch(line)
        if read:
            _send(root, readable_path(read.group(1), peer), int(read.group(2)))
        elif listed:
            _list(root, readable_folder(listed.group(1), peer))
        else:
            raise DeniedError("that is no request that Daddy's programs make")
        line = _read_line()


def readable_path(path: str, peer: str) -> "list[str]":
    """Pure. Return the parts of a readable file's path. Raise DeniedError for any other path."""
    folder, _, name = path.rpartition("/")
    if not FILE.fullmatch(name):
        raise DeniedError("that is no name of a file to read")
    return [*readable_folder(folder, peer), name]


def readable_folder(folder: str, peer: str) -> "list[str]":
    """Pure. Return the parts of a readable folder's path. Raise DeniedError for any other path."""
    if folder not in ("wan", "wan/claims", "receipts/" + peer):
        raise DeniedError(f"this key reads wan/ and receipts/{peer} alone")
    return folder.split("/")


def _send(root: int, parts: "list[str]", offset: int) -> None:
    """Write a file's size, and its bytes from ``offset``; "none" for a file that is not there."""
    try:
        folder = _enter(root, *parts[:-1])
        try:
            file = os.fdopen(os.open(parts[-1], READ, dir_fd=folder), "rb")
        finally:
            os.close(folder)
    except FileNotFoundError:
        return _answer("none")
    with file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise DeniedError("that is no plain file")
        _answer(str(facts.st_size))
        file.seek(offset)
        left = facts.st_size - offset
        while left > 0:
            signal.alarm(QUIET_S)
            chunk = file.read(min(CHUNK, left))
            if not chunk:
                raise EOFError
            sys.stdout.buffer.write(chunk)
            left -= len(chunk)
        sys.stdout.buffer.flush()
    return None


def _list(root: int, parts: "list[str]") -> None:
    """Write size and name of each plain file of a folder, then "end"."""
    with suppress(FileNotFoundError):
        folder = _enter(root, *parts)
        names = sorted(name for name in os.listdir(folder) if FILE.fullmatch(name))  # noqa: PTH208
        for name in names[:MOST_LISTED]:
            with suppress(FileNotFoundError):
                facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISREG(facts.st_mode):
                    _answer(f"{facts.st_size} {name}")
        os.close(folder)
    _answer("end")


# -- push


class Account:
    """The note on one key in ``inbox/.keys``: bytes of the day, refusals. One process holds it."""

    def __init__(self, root: int, peer: str) -> None:
        folder = _enter(root, "inbox", ".keys", make=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(peer + ".json", flags, 0o600, dir_fd=folder)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DeniedError(
                "another push of this key is at work: try again in a minute"
            ) from None
        except OSError:
            pass  # a file system without locks
        self.day = time.strftime("%Y-%m-%d", time.gmtime())
        note = _parse(os.read(self._file, RECORD_BYTES))
        same = note.get("day") == self.day
        self.bytes = _number(note.get("bytes")) if same else 0
        self.refused = _number(note.get("refused")) if same else 0
        self.last = str(note.get("last", "")) if same else ""

    def close(self) -> None:
        """Let another process of this key begin."""
        os.close(self._file)

    def add_bytes(self, size: int) -> None:
        """Count a file that is about to be written."""
        self.bytes += size
        self._write()

    def note_refusal(self, sentence: str) -> None:
        """Count a refusal and keep its sentence, which has no word of the client in it."""
        self.refused, self.last = self.refused + 1, sentence
        self._write()

    def _write(self) -> None:
        note = {"day": self.day, "bytes": self.bytes, "refused": self.refused, "last": self.last}
        data = json.dumps(note).encode()
        os.pwrite(self._file, data, 0)
        os.ftruncate(self._file, len(data))


def _parse(data: bytes) -> "dict[str, object]":
    try:
        value = json.loads(data.decode())
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _number(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


def receive(root: int, peer: str, run: "int | None" = None) -> None:
    """Take new files from stdin: for each a line "NAME SIZE", its bytes after our answer "send".
    ``run``: the folder of another account's run, which only reads the box.
    """
    limit = _state_limit(root if run is None else run)
    account = Account(root, peer)
    try:
        box = _enter(root, "inbox", peer, make=True)
        if run is not None:
            for folder in (_enter(root, "inbox"), box):
                os.fchmod(folder, stat.S_IMODE(os.fstat(folder).st_mode) | 0o055)
            remove_judged(box, run, peer)
        for name in os.listdir(box):  # noqa: PTH208
            if name.startswith(".part-"):  # of a push that was cut off: we hold its lock
                os.unlink(name, dir_fd=box)
        line = _read_line()
        while line:
            signal.alarm(QUIET_S)
            _take(root, peer, account, box, *read_offer(line, limit), limit)
            line = _read_line()
    finally:
        account.close()
    _answer("end")


def remove_judged(box: int, run: int, peer: str) -> None:
    """Remove files of a box that have a receipt in ``run``, or are old: ``run`` removes none. A
    file's ctime is its age, as the sender's clock sets no ctime.
    """
    now = time.time()  # noqa: TID251 - this file stands alone
    receipts = []  # type: list[str]
    with suppress(OSError):  # the run has judged nothing of this peer yet, or shows nothing
        receipts = os.listdir(_enter(run, "receipts", peer))
    for name in os.listdir(box):
        claim = "claim-" if name.endswith(".claim") else ""
        with suppress(OSError):
            age_s = now - os.stat(name, dir_fd=box, follow_symlinks=False).st_ctime
            if f"{claim}{name[:15]}.json" in receipts or age_s > OLD_S:
                os.unlink(name, dir_fd=box)


def _take(
    root: int, peer: str, account: Account, box: int, name: str, size: int, limit: int
) -> None:
    """Answer "have" for a file that is in the box; else take its bytes, within the limits."""
    try:
        os.stat(name, dir_fd=box, follow_symlinks=False)
        _answer("have " + name)
    except FileNotFoundError:
        refuse_excess(size, limit, _used(root, peer), account.bytes)
        account.add_bytes(size)
        _answer("send " + name)
        _write_file(box, name, size)
        _answer("took " + name)


def _read_line() -> str:
    return sys.stdin.buffer.readline(200).decode("ascii", "replace")


def read_offer(line: str, limit: int) -> "tuple[str, int]":
    """Pure. Return name and size of an offered file. Raise DeniedError unless both are allowed;
    the largest state has ``limit`` bytes.
    """
    match = _OFFER.fullmatch(line)
    if not match or not _SENT.fullmatch(match.group(1)):
        raise DeniedError("that is no name of a contribution")
    name, size = match.group(1), int(match.group(2))
    most = limit if name.endswith(".st") else RECORD_BYTES
    if size > most:
        raise DeniedError(f"{size} bytes are too many for one file: at most {most}")
    return name, size


def refuse_excess(size: int, limit: int, used: "tuple[int, int, int]", today: int) -> None:
    """Pure. Raise DeniedError if a file of ``size`` bytes exceeds a limit. ``used``: files and
    bytes in the box, bytes in all boxes; ``today``: bytes that this key sent today.
    """
    files, in_box, in_all = used
    most = box_limit(limit)
    if files >= MOST_FILES or in_box + size > most:
        raise DeniedError("this laptop's box is full until the run has read it")
    if in_all + size > BOXES * most:
        raise DeniedError("the boxes of all laptops are full until the run has read them")
    if today + size > DAYS * most:
        raise DeniedError("this laptop has sent all that it may send today (UTC)")


def box_limit(limit: int) -> int:
    """Pure. Return the most bytes of one box, if a file may have ``limit`` bytes."""
    return max(BOX_BYTES, 4 * limit)


def _state_limit(root: int) -> int:
    """Return the most bytes of a contribution: four times those of the run's newest version."""
    size = 0
    with suppress(FileNotFoundError):  # the run has no version yet
        file = os.open("HEAD.json", READ, dir_fd=_enter(root, "wan"))
        size = _number(_parse(os.read(file, RECORD_BYTES)).get("size"))
    return min(FILE_BYTES, 4 * size + RECORD_BYTES)


def _used(root: int, peer: str) -> "tuple[int, int, int]":
    """Return files and bytes in the box of ``peer``, and bytes in all boxes."""
    inbox, files, in_box, in_all = _enter(root, "inbox"), 0, 0, 0
    for name in os.listdir(inbox):  # noqa: PTH208
        with suppress(OSError):  # no folder, or gone
            box = _enter(inbox, name)
            sizes = list(_sizes(box))
            os.close(box)
            in_all += sum(sizes)
            if name == peer:
                files, in_box = len(sizes), sum(sizes)
    os.close(inbox)
    return files, in_box, in_all


def _sizes(box: int) -> "Iterator[int]":
    for name in os.listdir(box):
        with suppress(FileNotFoundError):  # the run has read it meanwhile
            yield os.stat(name, dir_fd=box, follow_symlinks=False).st_size


def _write_file(box: int, name: str, size: int) -> None:
    """Write ``size`` bytes of stdin into a new file, whole or not at all."""
    part = f".part-{os.getpid()}"  # without an ending: the run reads .json and .claim files
    stdin = cast("io.BufferedReader", sys.stdin.buffer)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(part, flags, 0o644, dir_fd=box), "wb") as file:  # less the umask
        try:
            while size:
                signal.alarm(QUIET_S)
                chunk = stdin.read1(min(CHUNK, size))
                if not chunk:
                    raise EOFError
                size -= file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
            os.rename(part, name, src_dir_fd=box, dst_dir_fd=box)
        except BaseException:
            os.unlink(part, dir_fd=box)
            raise


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ.get("SSH_ORIGINAL_COMMAND", "")))
