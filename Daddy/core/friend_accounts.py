"""Adapter for other accounts' folders: the list of a run's friends, and all that their jobs offer.

The run's owner writes ``peers.json``, everybody reads it. A friend's folder is known by its path
and by the account that must own all that is read there; the kernel vouches for that, so no
signature is needed. Nothing there is trusted: not its name, kind, owner, size or number. Links are
not followed; jobs are asked for by name, and of a job's processes so many are looked at and no
more. What is wrong with a folder is one sentence that ends in what to do: a home with umask 077 is
closed to a friend without a word, so it is said which folder, with the exact line.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import stat
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from Daddy.core.atomic_files import read_bounded, read_json, write_json
from Daddy.core.errors import FileError, UsageError, WeightsError
from Daddy.core.name_validation import PEER, check_peer
from Daddy.core.shared_weights_paths import JoinedPaths, SharedPaths, joined_paths

_READ = ("RUN.json", "HEAD.json", "peers.json", "merged", "blobs", "peers")
"""Names in a shared folder that other accounts read."""
_MOST_ENTRIES = 64
"""Entries of a folder that are looked at."""


def permission_commands(folder: Path) -> list[str]:
    """What its owner types so that other accounts can read below ``folder``; [] where they can.

    A folder with an access control list is not judged: only the server knows what it says.
    """
    lines = [
        f"chmod o+x {shlex.quote(str(parent))}"
        for parent in reversed(folder.parents)
        if not _lets(parent, stat.S_IXOTH)
    ]
    known = [folder / name for name in _READ]
    below = (path for parent in known for path in islice(parent.glob("*"), _MOST_ENTRIES))
    if not all(map(_readable, (folder, *known, *below))):
        lines.append(f"chmod -R o+rX {shlex.quote(str(folder))}")
    return lines


def acl_commands(lines: list[str], account: str) -> list[str]:
    """Pure: the same for one account alone, where the site has access control lists."""
    return [
        line.replace("chmod -R o+rX", f"setfacl -R -m u:{account}:rX")
        .replace("chmod o+x", f"setfacl -m u:{account}:x")
        for line in lines
    ]  # fmt: skip


def check_run_readable(paths: JoinedPaths) -> None:
    """WeightsError when the folder of the run that is joined cannot be read, with what to do."""
    theirs = paths.theirs.root
    closed = first_closed_folder(theirs)
    if closed is not None:
        raise WeightsError(
            f"{closed} is closed to this account, so {theirs} cannot be joined",
            f"ask its owner to type: chmod o+x {closed} ; chmod -R o+rX {theirs}",
        )
    try:
        paths.run.read_bytes()
    except FileNotFoundError as error:
        raise WeightsError(
            f"{theirs} holds no shared weights yet",
            "the run's owner starts first; collaboration.join names the owner's shared_weights",
        ) from error
    except PermissionError as error:
        raise WeightsError(
            f"{error.filename} is closed to this account",
            f"ask its owner to type: chmod -R o+rX {theirs}",
        ) from error


def make_readable_folder(folder: Path) -> None:
    """Make ``folder``, readable for all whatever the umask; one that is there is left as it is."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)


def first_closed_folder(path: Path) -> Path | None:
    """The first folder on the way to ``path`` that this account may not look into; None: none."""
    for folder in [*reversed(path.parents), path]:
        if folder.is_dir() and not os.access(folder, os.X_OK):
            return folder
    return None


def _readable(path: Path) -> bool:
    return _lets(path, stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0))


def _lets(path: Path, bits: int) -> bool:
    """Whether all accounts have these rights, or a list decides that we cannot read."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return True
    return mode & bits == bits or _has_list(path)


def _has_list(path: Path) -> bool:
    try:
        return bool(os.getxattr(path, "system.posix_acl_access"))
    except (OSError, AttributeError):  # none, or no such thing here
        return False


FORMAT = 1
TRUSTS = ("job", "laptop")
MAX_FRIENDS = 8
"""Friends of one run: what each may leave in a commit record is bounded, and so is the record."""

MAX_JOBS = 64
"""Jobs of one friend: as many as a run can have."""


@dataclass(frozen=True, slots=True)
class Friend:
    """One friend: name, absolute path of the ``shared_weights`` folder, its owner's uid, whether
    the jobs count as jobs or, capped, as laptops, and how many there may be.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: Annotated[str, Field(pattern=f"^{PEER.pattern}$")]
    folder: Annotated[str, Field(pattern="^/", max_length=1023)]
    uid: Annotated[int, Field(strict=True, ge=0)]
    trust: Annotated[str, Field(pattern=f"^({'|'.join(TRUSTS)})$")] = "job"
    jobs: Annotated[int, Field(strict=True, gt=0, le=MAX_JOBS)] = 4

    @property
    def shared(self) -> SharedPaths:
        """The friend's folder."""
        return SharedPaths(Path(self.folder))


@dataclass(frozen=True, slots=True)
class _FriendList:
    """Content of ``peers.json``."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    format: Literal[1]
    friends: Annotated[tuple[Friend, ...], Field(max_length=MAX_FRIENDS)]

    def __post_init__(self) -> None:
        if len({friend.name for friend in self.friends}) < len(self.friends):
            raise ValueError("a name stands twice")


_LIST = TypeAdapter(_FriendList)


def read_friends(shared: SharedPaths) -> tuple[Friend, ...]:
    """Everybody on the list, in order; FileError when it is damaged."""
    try:
        return _LIST.validate_python(read_json(shared.friends)).friends
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except ValidationError as error:
        flaw = error.errors()[0]
        raise FileError(
            f"{shared.friends} is no list of friends: {flaw['msg']} at {flaw['loc']}",
            "restore it, or remove it and add each again: python -m Daddy.weights.friends add",
        ) from error


def find_own_entry(paths: JoinedPaths, uid: int) -> Friend:
    """How the owner's list calls the account ``uid`` with its folder; WeightsError: not at all."""
    for friend in read_friends(paths):
        if (friend.folder, friend.uid) == (str(paths.root), uid):
            return friend
    raise WeightsError(
        f"{paths.friends} does not name {paths.root}",
        "ask the run's owner to type: python -m Daddy.weights.friends add YOUR-NAME "
        f"{paths.root} --of {paths.theirs.root}",
    )


def record_joined_run(paths: JoinedPaths) -> None:
    """Write down whose run the folder takes part in, for who looks at the folder alone."""
    if resolve_joined(SharedPaths(paths.root)) != paths:
        write_json(paths.joined, {"format": FORMAT, "theirs": str(paths.theirs.root)})


def resolve_joined(shared: SharedPaths) -> SharedPaths:
    """The folder as its own jobs see it: with the owner's beside where a run is joined."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, FileError, KeyError):
        return joined_paths(shared.root, Path(str(read_json(shared.joined)["theirs"])))
    return shared


def write_friends(shared: SharedPaths, friends: Sequence[Friend]) -> None:
    """Replace the list; readable for all."""
    rows = [asdict(one) for one in sorted(friends, key=lambda one: one.name)]
    write_json(shared.friends, {"format": FORMAT, "friends": rows})
    shared.friends.chmod(0o644)


def set_trust(shared: SharedPaths, name: str, trust: str) -> None:
    """Write down the owner's word on a friend; UsageError for a name that is not on the list."""
    friends = read_friends(shared)
    remove_friend(friends, name)
    chosen = [replace(one, trust=trust) if one.name == name else one for one in friends]
    write_friends(shared, chosen)
    write_json(shared.trusted, {"format": FORMAT, "names": sorted({*_chosen(shared), name})})


def trust_note(shared: SharedPaths, name: str) -> str:
    """Note on a friend whose jobs count as jobs because that was the default; empty for others."""
    with contextlib.suppress(FileError):
        as_jobs = any((one.name, one.trust) == (name, "job") for one in read_friends(shared))
        if as_jobs and name not in _chosen(shared):
            line = f"python -m Daddy.weights.friends trust {name}"
            return f"{name}'s jobs count as yours do: {line} laptop caps them, {line} job keeps it"
    return ""


def _chosen(shared: SharedPaths) -> list[str]:
    """Friends on whose trust the owner has said a word."""
    try:
        return [str(name) for name in read_json(shared.trusted)["names"]]
    except (FileNotFoundError, NotADirectoryError, FileError, KeyError, TypeError):
        return []


def add_friend(friends: Sequence[Friend], new: Friend) -> tuple[Friend, ...]:
    """Pure: the list with ``new``; UsageError for a name or folder that is on it, or too many."""
    check_peer(new.name)
    for one in friends:
        if one.name == new.name or one.folder == new.folder:
            raise UsageError(
                f"{one.name} is on the list already, with {one.folder}",
                f"remove {one.name} first, or choose another name",
            )
    if len(friends) >= MAX_FRIENDS:
        raise UsageError(
            f"{len(friends)} friends are on the list", f"{MAX_FRIENDS} may be: remove one"
        )
    return (*friends, new)


def remove_friend(friends: Sequence[Friend], name: str) -> tuple[Friend, ...]:
    """Pure: the list without ``name``; UsageError when it is not on it."""
    names = [friend.name for friend in friends]
    if name not in names:
        raise UsageError(f"{name!r} is not on the list", f"on it: {', '.join(names) or 'nobody'}")
    return tuple(friend for friend in friends if friend.name != name)


MAX_NAMES = 256
"""Names that are looked at in one job's folder."""

MAX_PROCESSES = 64
"""Process starts of one account that are looked at, those first that wrote last."""


_INCARNATION = re.compile(r"[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class AccountFolder:
    """One other account's jobs: ``friend`` as the owner calls it ("" for the owner's own jobs),
    the folder, the uid that everything in it must have, whether its jobs count as laptops, and how
    many there are: the others' shares shrink with the number of those who live.
    """

    friend: str
    paths: SharedPaths
    uid: int
    laptop: bool = False
    jobs: int = 4

    @property
    def owner_name(self) -> str:
        """Name of the account for a person to read."""
        return self.friend or "the run's owner"

    def process_folders(self) -> list[Path]:
        """The folders of its processes; empty where nothing can be seen (:meth:`problem`)."""
        if len(self._folders([self.paths.root, self.paths.peers])) < 2:  # noqa: PLR2004
            return []
        found = [(since, path) for job in self._jobs() for path, since in self._below(job)
                 if _INCARNATION.fullmatch(path.name)]  # fmt: skip
        return sorted(path for _, path in sorted(found, reverse=True)[:MAX_PROCESSES])

    def read_file(self, path: Path, limit: int) -> bytes:
        """The bytes of a file of that account; FileNotFoundError, FileError."""
        return read_bounded(path, limit, owner=self.uid)

    def problem(self) -> str:
        """Why nothing, or not all, can be seen there, and what to do; empty where all is well."""
        root, peers = self.paths.root, self.paths.peers
        try:
            if why := self._refusal(root) or self._refusal(peers):
                return why
            for job, _ in self._folders(self._jobs()):
                if len(_names(job)) > MAX_NAMES:
                    return f"{job} holds more than {MAX_NAMES} names: ask for a clean-up"
        except FileNotFoundError as error:
            if error.filename != str(peers):  # else no job of theirs has begun yet
                return f"{root} is gone: ask for the new place, or remove the friend"
        except PermissionError as error:
            closed = first_closed_folder(peers)
            right = f"o+x {closed}" if closed else f"o+rx {error.filename}"
            return f"{closed or error.filename} is closed to us: ask for chmod {right}"
        except OSError as error:
            return f"{error.filename} cannot be read: {error.strerror}"
        return ""

    def _jobs(self) -> list[Path]:
        """Where its jobs would write, by name: nobody else's word counts there."""
        before = f"{self.friend}." if self.friend else ""
        return [self.paths.peers / f"{before}slot-{number}" for number in range(self.jobs)]

    def _refusal(self, folder: Path) -> str:
        facts = os.lstat(folder)
        if not stat.S_ISDIR(facts.st_mode):
            return f"{folder} is no folder (a link is not followed): add the friend's real folder"
        if facts.st_uid != self.uid:
            return f"{folder} belongs to uid {facts.st_uid}, not {self.uid}: add the friend anew"
        return ""

    def _below(self, parent: Path) -> list[tuple[Path, float]]:
        """The folders in ``parent``, itself one of that account; empty where none can be seen."""
        with contextlib.suppress(OSError):
            if self._folders([parent]):
                return self._folders([parent / name for name in _names(parent)[:MAX_NAMES]])
        return []

    def _folders(self, paths: Sequence[Path]) -> list[tuple[Path, float]]:
        """Those that are folders of that account, each with when something was last put there."""
        found = []
        for path in paths:
            with contextlib.suppress(OSError):
                if not self._refusal(path):
                    found.append((path, os.lstat(path).st_mtime))
        return found


def account_folders(shared: SharedPaths) -> list[AccountFolder]:
    """Every other account that takes part in the run: the owner's first where it is joined.

    FileError when the list is damaged.
    """
    boxes = [
        AccountFolder(one.name, one.shared, one.uid, one.trust == "laptop", one.jobs)
        for one in read_friends(shared)
        if one.shared.root != shared.root
    ]
    if isinstance(shared, JoinedPaths):
        with contextlib.suppress(OSError):  # what is closed to us we are told when we join
            uid = shared.theirs.root.stat().st_uid
            boxes.insert(0, AccountFolder("", shared.theirs, uid, jobs=MAX_JOBS))
    return boxes


def _names(folder: Path) -> list[str]:
    """At most one more than are looked at."""
    with os.scandir(folder) as entries:
        return [entry.name for entry in islice(entries, MAX_NAMES + 1)]
