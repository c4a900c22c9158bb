"""Door to ``peers.json``: which friends, with accounts of their own, take part in a run.

The run's owner writes it, everybody reads it. A friend's folder is known by its path and by the
account that must own all that is read there; the kernel vouches for that, so no signature is
needed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from Daddy.core.errors import FileError, UsageError, WeightsError
from Daddy.core.files import read_json, write_json
from Daddy.core.names import PEER, check_peer
from Daddy.core.shared_paths import JoinedPaths, SharedPaths, joined

FORMAT = 1
TRUSTS = ("job", "laptop")
MOST = 8
"""Friends of one run: what each may leave in a commit record is bounded, and so is the record."""

MOST_JOBS = 64
"""Jobs of one friend: as many as a run can have."""


@dataclass(frozen=True, slots=True)
class Friend:
    """One friend: name, absolute path of the ``shared_weights`` folder, its owner's uid, whether
    the jobs count as jobs or, capped, as laptops, and how many there may be.
    """

    name: str
    folder: str
    uid: int
    trust: str = "job"
    jobs: int = 4

    @property
    def shared(self) -> SharedPaths:
        """The friend's folder."""
        return SharedPaths(Path(self.folder))


def read_friends(shared: SharedPaths) -> tuple[Friend, ...]:
    """Everybody on the list, in order; FileError when it is damaged."""
    try:
        body = read_json(shared.friends)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    try:
        return _checked(body)
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(
            f"{shared.friends} is no list of friends: {error}",
            "restore it, or remove it and add each again: python -m Daddy.weights.friends add",
        ) from error


def _checked(body: Mapping[str, Any]) -> tuple[Friend, ...]:
    if body["format"] != FORMAT or body.keys() != {"format", "friends"}:
        raise ValueError("its format or its fields are others")
    found = tuple(Friend(**one) for one in body["friends"])
    for one in found:
        _check(one)
    if len(found) > MOST or len({one.name for one in found}) < len(found):
        raise ValueError(f"a name stands twice, or there are more than {MOST}")
    return found


def _check(one: Friend) -> None:
    """ValueError for what cannot be."""
    if not (isinstance(one.name, str) and PEER.fullmatch(one.name)):
        raise ValueError(f"{one.name!r} is no name")
    if not (isinstance(one.folder, str) and one.folder.startswith("/") and len(one.folder) < 1024):  # noqa: PLR2004
        raise ValueError(f"the folder of {one.name} is no absolute path")
    if not isinstance(one.uid, int) or isinstance(one.uid, bool) or one.uid < 0:
        raise ValueError(f"the uid of {one.name} is no whole number")
    if not isinstance(one.jobs, int) or isinstance(one.jobs, bool) or not 0 < one.jobs <= MOST_JOBS:
        raise ValueError(f"the jobs of {one.name} are no number from 1 to {MOST_JOBS}")
    if one.trust not in TRUSTS:
        raise ValueError(f"the trust of {one.name} is none of {', '.join(TRUSTS)}")


def my_place(paths: JoinedPaths, uid: int) -> Friend:
    """How the owner's list calls the account ``uid`` with its folder; WeightsError: not at all."""
    for one in read_friends(paths):
        if (one.folder, one.uid) == (str(paths.root), uid):
            return one
    raise WeightsError(not_listed(paths), asked_of_owner(paths))


def remember_joined(paths: JoinedPaths) -> None:
    """Write down whose run the folder takes part in, for who looks at the folder alone."""
    note = {"format": FORMAT, "theirs": str(paths.theirs.root)}
    with contextlib.suppress(FileNotFoundError, FileError):
        if read_json(paths.joined) == note:
            return
    write_json(paths.joined, note)


def view(shared: SharedPaths) -> SharedPaths:
    """The folder as its own jobs see it: with the owner's beside where a run is joined."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, FileError, KeyError):
        return joined(shared.root, Path(str(read_json(shared.joined)["theirs"])))
    return shared


def not_listed(paths: SharedPaths) -> str:
    """Pure: that a folder is not on the owner's list."""
    return f"{paths.friends} does not name {paths.root}"


def asked_of_owner(paths: JoinedPaths) -> str:
    """Pure: what the owner is to type before the folder's jobs take part."""
    return (
        "ask the run's owner to type: python -m Daddy.weights.friends add YOUR-NAME "
        f"{paths.root} --of {paths.theirs.root}"
    )


def write_friends(shared: SharedPaths, friends: Sequence[Friend]) -> None:
    """Replace the list; readable for all."""
    rows = [asdict(one) for one in sorted(friends, key=lambda one: one.name)]
    write_json(shared.friends, {"format": FORMAT, "friends": rows})
    shared.friends.chmod(0o644)


def choose_trust(shared: SharedPaths, name: str, trust: str) -> None:
    """Write down the owner's word on a friend; UsageError for a name that is not on the list."""
    friends = read_friends(shared)
    without_friend(friends, name)
    chosen = [replace(one, trust=trust) if one.name == name else one for one in friends]
    write_friends(shared, chosen)
    write_json(shared.trusted, {"format": FORMAT, "names": sorted({*_chosen(shared), name})})


def trust_note(shared: SharedPaths, name: str) -> str:
    """Note on a friend whose jobs count as jobs because that was the default; empty for others."""
    with contextlib.suppress(FileError):
        kept = [one for one in read_friends(shared) if (one.name, one.trust) == (name, "job")]
        if kept and name not in _chosen(shared):
            line = f"python -m Daddy.weights.friends trust {name}"
            return f"{name}'s jobs count as yours do: {line} laptop caps them, {line} job keeps it"
    return ""


def _chosen(shared: SharedPaths) -> list[str]:
    """Friends on whose trust the owner has said a word."""
    try:
        return [str(name) for name in read_json(shared.trusted)["names"]]
    except (FileNotFoundError, NotADirectoryError, FileError, KeyError, TypeError):
        return []


def with_friend(friends: Sequence[Friend], new: Friend) -> tuple[Friend, ...]:
    """Pure: the list with ``new``; UsageError for a name or folder that is on it, or too many."""
    check_peer(new.name)
    for one in friends:
        if one.name == new.name or one.folder == new.folder:
            raise UsageError(
                f"{one.name} is on the list already, with {one.folder}",
                f"remove {one.name} first, or choose another name",
            )
    if len(friends) >= MOST:
        raise UsageError(f"{len(friends)} friends are on the list", f"{MOST} may be: remove one")
    return (*friends, new)


def without_friend(friends: Sequence[Friend], name: str) -> tuple[Friend, ...]:
    """Pure: the list without ``name``; UsageError when it is not on it."""
    left = tuple(one for one in friends if one.name != name)
    if len(left) == len(friends):
        known = ", ".join(one.name for one in friends) or "nobody"
        raise UsageError(f"{name!r} is not on the list", f"on it: {known}")
    return left
