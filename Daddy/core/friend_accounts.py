"""Adapter for other accounts' folders: reads the list of a run's friends, and their jobs' folders.

A friend is another account whose jobs take part in the run. The run's owner writes the list,
``peers.json``; every job reads it. A friend's folder is identified by its path and by the uid that
must own every file read there; the kernel guarantees the owner, so no signature is needed. Every
other property is checked: name, kind, size and number of files. Links are not followed. A problem
with a folder is reported in one sentence that ends with the command to type.
"""

import contextlib
import os
import re
import shlex
import stat
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from Daddy.core.atomic_files import read_bounded, read_json, write_json
from Daddy.core.errors import FileError, UsageError, WeightsError
from Daddy.core.name_validation import OWN, PEER, check_peer
from Daddy.core.run_paths import RUN_NAMES, RunPaths
from Daddy.core.shared_weights_paths import JoinedPaths, SharedPaths, joined_paths

_READ = ("RUN.json", "HEAD.json", "peers.json", "merged", "blobs", "peers")
"""Names in a shared folder that other accounts read."""
_MOST_ENTRIES = 64
"""Largest number of entries of a folder whose permissions are checked."""
_MOST_ERRORS = 4
"""Most files of another account in a run that are named."""


def permission_commands(folder: Path) -> list[str]:
    """Return the chmod commands that let other accounts read below ``folder``; [] if they can.

    A folder with an access control list counts as readable: only the server can evaluate the list.
    """
    lines = [
        f"chmod go+x {shlex.quote(str(parent))}"
        for parent in reversed(folder.parents)
        if not _permits(parent, stat.S_IXOTH | stat.S_IXGRP)
    ]
    parents = [folder / name for name in _READ]
    below = (path for parent in parents for path in islice(parent.glob("*"), _MOST_ENTRIES))
    if not all(map(_readable, (folder, *parents, *below))):
        lines.append(f"chmod -R go+rX {shlex.quote(str(folder))}")
    return lines


def acl_commands(lines: list[str], account: str) -> list[str]:
    """Pure. Turn chmod commands into setfacl commands that admit ``account`` alone."""
    return [
        line.replace("chmod -R go+rX", f"setfacl -R -m u:{account}:rX")
        .replace("chmod go+x", f"setfacl -m u:{account}:x")
        for line in lines
    ]  # fmt: skip


def check_run_readable(paths: JoinedPaths) -> None:
    """Raise WeightsError, with its remedy, when the folder of the joined run cannot be read."""
    theirs = paths.theirs.root
    closed = first_closed_folder(theirs)
    if closed is not None:
        raise WeightsError(
            f"{closed} is closed to this account, so {theirs} cannot be joined",
            f"ask the run's owner to type: chmod go+x {closed} ; chmod -R go+rX {theirs}",
        )
    try:
        paths.run.read_bytes()
    except FileNotFoundError as error:
        raise WeightsError(
            f"{theirs} holds no shared weights yet",
            "let the run's owner start first; set collaboration.join to the owner's shared_weights",
        ) from error
    except PermissionError as error:
        raise WeightsError(
            f"{error.filename} is closed to this account",
            f"ask the run's owner to type: chmod -R go+rX {theirs}",
        ) from error


def make_readable_folder(folder: Path) -> None:
    """Create ``folder`` readable for all, whatever the umask; leave an existing folder as it is."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(stat.S_IMODE(folder.stat().st_mode) | 0o755)  # keeps setgid


def close_run(run: RunPaths, shared: SharedPaths) -> list[str]:
    """Take other accounts' rights to the files that the run made; return the first errors.

    Nothing is opened. With friends, ``shared_weights`` stays as it is, and others may still pass
    through the run's folder, without listing it. Raises FileError for a damaged list of friends.
    A home folder and a checkout hold names like ours, so nothing there is changed.
    """
    if _holds_more(run.root):
        return [f"{run.root} holds more than the run and stays as open as it is: change run_dir"]
    joined = isinstance(shared, JoinedPaths) or bool(account_folders(shared))
    ours = {run.root / name for name in RUN_NAMES} - ({shared.root} if joined else set())
    allowed = 0o7711 if joined and run.root in shared.root.parents else 0o7700
    errors = [error for path in sorted(ours) for error in _close(path)]
    return [*errors, *_close(run.root, allowed, deep=False)][:_MOST_ERRORS]


def _holds_more(folder: Path) -> bool:
    home = Path.home().resolve()
    return folder in (home, *home.parents) or (folder / ".git").exists()


def _close(path: Path, allowed: int = 0o7700, *, deep: bool = True) -> Iterator[str]:
    """Leave ``path`` the mode bits in ``allowed``, after all below it; yield errors.

    A folder that has no other bits is passed over: Daddy closed what is below it, or made it so.
    """
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode) or not stat.S_IMODE(mode) & ~allowed:
            return
        for below in path.iterdir() if deep and stat.S_ISDIR(mode) else ():
            yield from _close(below)
        path.chmod(stat.S_IMODE(mode) & allowed)
    except FileNotFoundError:
        return  # a new run, or a running job removed the file
    except OSError as error:
        yield f"{path} stays open to other accounts: {error.strerror}"


def first_closed_folder(path: Path) -> Path | None:
    """Return the first folder down to ``path`` that this account may not search, or None."""
    for folder in [*reversed(path.parents), path]:
        if folder.is_dir() and not os.access(folder, os.X_OK):
            return folder
    return None


def _readable(path: Path) -> bool:
    return _permits(path, 0o055 if path.is_dir() else 0o044)


def _permits(path: Path, bits: int) -> bool:
    """Return True if all accounts have these mode bits, or an access control list decides."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return True
    return mode & bits == bits or _has_list(path)


def _has_list(path: Path) -> bool:
    try:
        return bool(os.getxattr(path, "system.posix_acl_access"))
    except (OSError, AttributeError):  # no list, or no support on this system
        return False


FORMAT = 1
TRUSTS = ("job", "laptop")
MAX_FRIENDS = 8
"""Most friends of one run, which bounds the size of a commit record."""

MAX_JOBS = 64
"""Most jobs of one friend: as many as a run can have."""


@dataclass(frozen=True, slots=True)
class Friend:
    """One friend: name, absolute path of the ``shared_weights`` folder and its owner's uid.

    ``trust``: the jobs count as jobs or, capped, as laptops. ``jobs``: largest number of jobs.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: Annotated[str, Field(pattern=f"^{PEER.pattern}$")]
    folder: Annotated[str, Field(pattern="^/", max_length=1023)]
    uid: Annotated[int, Field(strict=True, ge=0)]
    trust: Annotated[str, Field(pattern=f"^({'|'.join(TRUSTS)})$")] = "job"
    jobs: Annotated[int, Field(strict=True, gt=0, le=MAX_JOBS)] = 4

    @property
    def shared(self) -> SharedPaths:
        return SharedPaths(Path(self.folder))


@dataclass(frozen=True, slots=True)
class _FriendList:
    """Content of ``peers.json``."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    format: Literal[1]
    friends: Annotated[tuple[Friend, ...], Field(max_length=MAX_FRIENDS)]

    def __post_init__(self) -> None:
        if len({friend.name for friend in self.friends}) < len(self.friends):
            raise ValueError("a name occurs twice")


_LIST = TypeAdapter(_FriendList)


def read_friends(shared: SharedPaths) -> tuple[Friend, ...]:
    """Return the friends in ``peers.json``, () without that file; FileError if damaged."""
    try:
        return _LIST.validate_python(read_json(shared.friends)).friends
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except ValidationError as error:
        flaw = error.errors()[0]
        raise FileError(
            f"{shared.friends} is no list of friends: {flaw['msg']} at {flaw['loc']}",
            "restore the file, or remove it and type for each: python -m Daddy.weights.friends add",
        ) from error


def find_own_entry(paths: JoinedPaths, uid: int) -> Friend:
    """Return the ``peers.json`` entry of our folder and ``uid``; WeightsError without one."""
    for friend in read_friends(paths):
        if (friend.folder, friend.uid) == (str(paths.root), uid):
            return friend
    raise WeightsError(
        f"{paths.friends} does not name {paths.root}",
        "ask the run's owner to type: python -m Daddy.weights.friends add YOUR-NAME "
        f"{paths.root} --of {paths.theirs.root}",
    )


def record_joined_run(paths: JoinedPaths) -> None:
    """Write the joined run's folder to our ``JOINED.json``, for commands that get only ours."""
    if resolve_joined(SharedPaths(paths.root)) != paths:
        write_json(paths.joined, {"format": FORMAT, "theirs": str(paths.theirs.root)})


def resolve_joined(shared: SharedPaths) -> SharedPaths:
    """Return JoinedPaths if ``JOINED.json`` in the folder names a run, or ``shared`` itself."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, FileError, KeyError):
        return joined_paths(shared.root, Path(str(read_json(shared.joined)["theirs"])))
    return shared


def write_friends(shared: SharedPaths, friends: Sequence[Friend]) -> None:
    """Write ``friends``, sorted by name, to ``peers.json``, which all accounts can read."""
    rows = [asdict(friend) for friend in sorted(friends, key=lambda friend: friend.name)]
    write_json(shared.friends, {"format": FORMAT, "friends": rows})
    shared.friends.chmod(0o644)


def set_trust(shared: SharedPaths, name: str, trust: str) -> None:
    """Write a friend's trust to ``peers.json``, its name to ``trusted.json``. UsageError."""
    friends = read_friends(shared)
    remove_friend(friends, name)
    changed = [replace(old, trust=trust) if old.name == name else old for old in friends]
    write_friends(shared, changed)
    write_json(shared.trusted, {"format": FORMAT, "names": sorted({*_chosen(shared), name})})


def trust_note(shared: SharedPaths, name: str) -> str:
    """Return a hint if a friend has trust ``job`` and the owner never chose that, or ""."""
    with contextlib.suppress(FileError):
        as_jobs = (name, "job") in ((friend.name, friend.trust) for friend in read_friends(shared))
        if as_jobs and name not in _chosen(shared):
            line = f"python -m Daddy.weights.friends trust {name}"
            return f"{name}'s jobs count as yours do: {line} laptop caps them, {line} job keeps it"
    return ""


def _chosen(shared: SharedPaths) -> list[str]:
    """Return the names of the friends whose trust the owner has chosen."""
    try:
        return [str(name) for name in read_json(shared.trusted)["names"]]
    except (FileNotFoundError, NotADirectoryError, FileError, KeyError, TypeError):
        return []


def add_friend(friends: Sequence[Friend], new: Friend) -> tuple[Friend, ...]:
    """Pure. Return ``friends`` plus ``new``; UsageError if its name or folder is taken."""
    check_peer(new.name)
    for old in friends:
        if old.name == new.name or old.folder == new.folder:
            raise UsageError(
                f"friend {old.name} exists already, with folder {old.folder}",
                f"remove {old.name} first, or choose another name",
            )
    if len(friends) >= MAX_FRIENDS:
        raise UsageError(
            f"the run has {len(friends)} friends, the most are {MAX_FRIENDS}", "remove a friend"
        )
    return (*friends, new)


def remove_friend(friends: Sequence[Friend], name: str) -> tuple[Friend, ...]:
    """Pure. Return ``friends`` without ``name``; UsageError if no friend has that name."""
    names = [friend.name for friend in friends]
    if name not in names:
        raise UsageError(f"no friend is called {name!r}", f"name one of: {', '.join(names) or '-'}")
    return tuple(friend for friend in friends if friend.name != name)


MAX_NAMES = 256
"""Most names that are read in one job's folder."""

MAX_PROCESSES = 64
"""Most process folders of one account that are read, the newest first."""


_INCARNATION = re.compile(r"[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class AccountFolder:
    """The folder of another account's jobs: ``friend`` is its name ("" for the run's owner).

    Every file in it must belong to ``uid``. ``laptop``: its jobs count as laptops. ``jobs``: most
    jobs; the weight of each contribution shrinks with the number of running jobs.
    """

    friend: str
    paths: SharedPaths
    uid: int
    laptop: bool = False
    jobs: int = 4

    @property
    def owner_name(self) -> str:
        return self.friend or "the run's owner"

    def process_folders(self) -> list[Path]:
        """Return the folders of the account's process starts; [] if unreadable (`problem`)."""
        if len(self._folders([self.paths.root, self.paths.peers])) < 2:  # noqa: PLR2004
            return []
        dated = [(since, path) for job in self._jobs() for path, since in self._below(job)
                 if _INCARNATION.fullmatch(path.name)]  # fmt: skip
        return sorted(path for _, path in sorted(dated, reverse=True)[:MAX_PROCESSES])

    def laptop_box(self) -> Path | None:
        """Return the box of the account's laptops, one for all of them; None if it is unreadable.
        It is named after the friend, so that an account counts as one laptop.
        """
        box = self.paths.inbox / self.friend
        named = bool(self.friend) and not OWN.fullmatch(self.friend)
        way = [self.paths.root, self.paths.inbox, box]
        return box if named and len(self._folders(way)) == len(way) else None

    def read_file(self, path: Path, limit: int) -> bytes:
        """Return the bytes of a file of that account. Raises FileNotFoundError, FileError."""
        return read_bounded(path, limit, owner=self.uid)

    def problem(self) -> str:
        """Return the reason for which files cannot be read, and the remedy; empty if all can."""
        root, peers = self.paths.root, self.paths.peers
        try:
            if why := self._refusal(root) or self._refusal(peers):
                return why
            for job, _ in self._folders(self._jobs()):
                if len(_names(job)) > MAX_NAMES:
                    return f"{job} holds more than {MAX_NAMES} names: ask for a clean-up"
        except FileNotFoundError as error:
            if error.filename != str(peers):  # else its first job has not started yet
                return f"{root} does not exist: ask for the right place, or remove the friend"
        except PermissionError as error:
            closed = first_closed_folder(peers)
            right = f"go+x {closed}" if closed else f"go+rx {error.filename}"
            return f"{closed or error.filename} is closed to us: ask for chmod {right}"
        except OSError as error:
            return f"{error.filename} cannot be read: {error.strerror}"
        return ""

    def _jobs(self) -> list[Path]:
        """Return the paths of the account's job folders, slot 0 up to its number of jobs."""
        prefix = f"{self.friend}." if self.friend else ""
        return [self.paths.peers / f"{prefix}slot-{number}" for number in range(self.jobs)]

    def _refusal(self, folder: Path) -> str:
        status = os.lstat(folder)
        if not stat.S_ISDIR(status.st_mode):
            return f"{folder} is no folder (a link is not followed): add the friend's real folder"
        if status.st_uid != self.uid:
            return f"{folder} belongs to uid {status.st_uid}, not {self.uid}: add the friend anew"
        return ""

    def _below(self, parent: Path) -> list[tuple[Path, float]]:
        """Return (folder in ``parent`` that the account owns, time of change); [] if unreadable."""
        with contextlib.suppress(OSError):
            if self._folders([parent]):
                return self._folders([parent / name for name in _names(parent)[:MAX_NAMES]])
        return []

    def _folders(self, paths: Sequence[Path]) -> list[tuple[Path, float]]:
        """Select folders that the account owns, each with its modification time."""
        owned = []
        for path in paths:
            with contextlib.suppress(OSError):
                if not self._refusal(path):
                    owned.append((path, os.lstat(path).st_mtime))
        return owned


def account_folders(shared: SharedPaths) -> list[AccountFolder]:
    """Return the other accounts' folders, the owner's first if we joined its run. FileError."""
    folders = [
        AccountFolder(other.name, other.shared, other.uid, other.trust == "laptop", other.jobs)
        for other in read_friends(shared)
        if other.shared.root != shared.root
    ]
    if isinstance(shared, JoinedPaths):
        with contextlib.suppress(OSError):  # an unreadable folder is reported when we join
            uid = shared.theirs.root.stat().st_uid
            folders.insert(0, AccountFolder("", shared.theirs, uid, jobs=MAX_JOBS))
    return folders


def _names(folder: Path) -> list[str]:
    """Return names in ``folder``: at most one more than `MAX_NAMES`."""
    with os.scandir(folder) as entries:
        return [entry.name for entry in islice(entries, MAX_NAMES + 1)]
