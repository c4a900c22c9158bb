"""Gets every change of the shared folder on the server and names the invariant it breaks.

I1 the newest version is complete. I2 versions are contiguous, each names its parent's hash. I3 no
contribution is judged twice. I4 none is lost: its record is removed after it was judged, its file
later. I5 no process reads an older version than before. I6 no contribution based on a reverted
version counts.
"""

from collections.abc import Iterator

from Daddy.core.atomic_files import sha256_hex
from Daddy.core.errors import WeightsError
from Daddy.weights.merge.cleanup import blobs_of
from Daddy.weights.store.weight_records import (
    Contribution,
    Head,
    Input,
    LaptopHead,
    Refusal,
    Version,
    parse,
)
from scripts.soaks.lagging_fs import Inode

Key = tuple[str, str, int]
_FRIENDS = "friend/"


class InvariantChecker:
    """Checks changes against the invariants; ``broken`` lists violations."""

    def __init__(self, root: str, keep: int, *, counts: bool) -> None:
        self._root, self._keep, self._counts = root + "/", keep, counts
        self.broken: list[str] = []
        self.versions: list[Version] = []
        self.judged: set[Key] = set()
        self.pending: dict[Key, str] = {}
        self.promised: set[Key] = set()
        self.steps: dict[str, int] = {}
        self._records: list[str] = []
        self._files: dict[str, Inode] = {}
        self._seen: dict[object, int] = {}
        self._friends = False

    def changed(self, path: str, inode: Inode | None) -> None:
        """Record that a name below the root has another content now."""
        name = path.removeprefix(self._root)
        before = self._files.pop(name, None)
        if inode is not None:
            self._files[name] = inode
        self._friends = name.startswith(_FRIENDS)  # each account's offers lie in its own folder
        name = name.removeprefix(_FRIENDS)
        folder = name.split("/")[0]
        if any(entry is not None and entry.folder for entry in (inode, before)):
            return
        data = None if inode is None else bytes(inode.data)
        judge = {"merged": self._merged, "blobs": self._blob, "peers": self._peer,
                 "HEAD.json": self._head, "wan": self._wan}  # fmt: skip
        if folder == "merged" and before is not None:
            self.broken.append(f"I2: {name} was changed after it had been committed")
        elif folder in judge:
            self.broken += judge[folder](name, data)

    def saw(self, reader: object, number: int | None) -> None:
        """Record that a reader got ``number`` as the newest version."""
        found, before = -1 if number is None else number, self._seen.get(reader, -1)
        if found < before:
            self.broken.append(f"I5: a reader saw v{found} after v{before}")
        if found >= len(self.versions):
            self.broken.append(f"I5: a reader saw v{found}, which was never committed")
        self._seen[reader] = max(found, before)

    def made(self, peer: str, steps: int) -> None:
        """Record the total of steps that a peer has made."""
        self.steps[peer] = max(steps, self.steps.get(peer, 0))

    # -- one kind of file each

    def _merged(self, name: str, data: bytes | None) -> Iterator[str]:
        assert data is not None
        record = parse(Version, data, name)
        if record.version != len(self.versions):
            yield f"I2: {name} follows v{len(self.versions) - 1}"
        if record.version and record.parent != self._records[-1]:
            yield f"I2: {name} does not name its parent's hash"
        judged: list[Input | Refusal] = [*record.inputs, *record.refused]
        fresh = [
            (judged_offer.peer, judged_offer.incarnation, judged_offer.sequence)
            for judged_offer in judged
        ]
        yield from (f"I3: {name} judges {key} again" for key in fresh if key in self.judged)
        for sha in blobs_of(record):  # a friend's too: the owner's versions are whole without it
            if not self._holds(sha):
                yield f"I1: {name} is committed without {sha[:12]}"
        for peer, steps in record.contributors.items():
            if self._counts and steps > self.steps.get(peer, steps):
                yield f"I3: {name} counts {steps} steps of {peer}, {self.steps[peer]} were made"
        self.judged.update(fresh)
        self.versions.append(record)
        self._records.append(sha256_hex(data))

    def _holds(self, sha: str) -> bool:
        place = _FRIENDS if self._friends else ""
        return f"{place}blobs/{sha[:2]}/{sha}.st" in self._files

    def _blob(self, name: str, data: bytes | None) -> Iterator[str]:
        sha = name.rpartition("/")[2].removesuffix(".st")
        if data is not None:
            if sha256_hex(data) != sha:
                yield f"I1: {name} appeared incomplete"
            return
        for record in self.versions[-self._keep :]:
            if sha in blobs_of(record) and not self._friends:
                yield f"I1: {name} of v{record.version} was removed at v{len(self.versions) - 1}"
        for key, blob in self.pending.items():
            mine = ("." in key[0]) == self._friends
            if blob == sha and key not in self.judged and mine:
                yield f"I4: {name} was removed before {key} was judged"

    def _peer(self, name: str, data: bytes | None) -> Iterator[str]:
        _, peer, incarnation, file = name.split("/")
        number = file.removesuffix(".json")
        if not number.isdigit():
            return
        key = (peer, incarnation, int(number))
        if data is None:
            self.pending.pop(key, None)
            if key not in self.judged:
                yield f"I4: the record of {key} was removed before it was judged"
            return
        offer = parse(Contribution, data, name)
        self.pending[key] = offer.blob
        if not self._holds(offer.blob):
            yield f"I4: {key} was offered without its file"

    def _head(self, name: str, data: bytes | None) -> Iterator[str]:
        if data is not None and parse(Head, data, name).version >= len(self.versions):
            yield f"I1: {name} names a version that does not exist"

    def _wan(self, name: str, data: bytes | None) -> Iterator[str]:
        if name == "wan/HEAD.json" and data is not None:
            frame = parse(LaptopHead, data, name)
            if f"wan/{frame.name}" not in self._files:
                yield f"I1: laptops are offered {frame.name}, which is not there"

    # -- when all is over

    def lost(self) -> Iterator[str]:
        """Yield contributions that are neither judged nor waiting."""
        for key in sorted(self.promised - self.judged):
            yield f"I4: {key} was published and never judged"

    def unreadable(self, sha: str, error: WeightsError) -> None:
        """Record that the newest version could not be read."""
        self.broken.append(f"I1: the newest state {sha[:12]} cannot be read: {error}")
