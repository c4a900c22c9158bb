"""Versions that were pulled, as a WeightExchange that only takes: for a laptop that only plays.

``sync_weights.sh`` moves the files. Only complete, verified versions are taken; a damaged one is
warned of, once, and passed over: the one before it, or the one being played, goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from Daddy.core.errors import WeightsError
from Daddy.weights.fate import Fate
from Daddy.weights.laptops.local import Verified, newest_verified, read_frame, refuse_strange
from Daddy.weights.polyak import StateDict, copy
from Daddy.weights.progress import Adoption, Base, Progress, Stride, whole
from Daddy.weights.records.notices import Receipt
from Daddy.weights.records.probation import is_reverted
from Daddy.weights.wire.codec import decode, schema_of


class PulledVersions:
    """The newest verified version below ``local_dir`` (usually ``~/shared_weights``).

    A version that was learnt with scripted helps beyond ``assists`` is not taken. ``newest`` is the
    version taken over last, ``warnings`` collects what could not be used.
    """

    def __init__(self, local_dir: Path, assists: tuple[str, ...] = ()) -> None:
        self._folder = local_dir
        self._assists = assists
        self._schema = ""
        self._progress: Progress | None = None
        self._complaint = ""
        self.newest: Verified | None = None
        self.warnings: list[str] = []

    def begin(self, initial: Callable[[], StateDict], resumed: bytes | None) -> Adoption:
        """The newest version; WeightsError when none was pulled or it is not for us.

        A laptop always begins with the newest version: ``resumed`` is not used.
        """
        del resumed
        self._schema = schema_of(copy(initial()))
        found = newest_verified(self._folder)
        if found is None:
            raise WeightsError(
                f"{self._folder} holds no version yet",
                f'run: ./Daddy/cluster/sync_weights.sh pull "" {self._folder}',
            )
        base = self._take(found)
        self._progress = Progress.start(base)
        return Adoption(base.version, copy(base.weights), f"began with v{base.version}")

    def publish(self, weights: StateDict, env_steps: int, optimizer_steps: int) -> str:
        """Nothing is offered."""
        del weights, env_steps, optimizer_steps
        return "nothing published: this laptop only plays"

    def adopt(self, weights: StateDict, stride: Stride = whole) -> Adoption | None:
        """A newer version, rebased on ``weights``, if one was pulled; ``stride`` says how far."""
        try:
            frame = read_frame(self._folder / "wan" / "HEAD.json")
            if frame is None or frame.version == self._at.base.version:
                return None
            found = newest_verified(self._folder)
            if found is None or found.version == self._at.base.version:
                return None
            base = self._take(found)
        except WeightsError as error:
            self._warn(error.message)
            return None
        return self._at.rebase(base, copy(weights), self._fate(base.version), stride)

    def beat(self) -> None:
        """Nobody waits for a laptop."""

    def fleet_steps(self) -> int:
        """Environment steps of all contributors in the version taken over last."""
        return 0 if self.newest is None else self.newest.frame.fleet_steps

    def bookkeeping(self) -> bytes:
        """Nothing: a laptop begins with the newest version."""
        return b"{}"

    def receipts(self) -> list[Receipt]:
        """What became of this process's contributions: it makes none."""
        return []

    @property
    def _at(self) -> Progress:
        if self._progress is None:
            raise WeightsError("begin() has not been called", "call begin() first")
        return self._progress

    def _take(self, found: Verified) -> Base:
        refuse_strange(found.frame, self._assists)
        if found.frame.schema != self._schema:
            release = found.frame.release or "that the run's owner names"
            raise WeightsError(
                f"v{found.version} of run {found.frame.run!r} is another policy than ours",
                f"install the release {release}: the run's owner has its code",
            )
        base = Base(found.version, found.frame.state, decode(found.data, self._schema))
        self.newest = found
        if found.warning:
            self._warn(found.warning)
        return base

    def _warn(self, text: str) -> None:
        if text != self._complaint:
            self.warnings.append(text)
        self._complaint = text

    def _fate(self, version: int) -> Fate:
        """Of own contributions, what was judged up to ``version``: there are none."""
        del version
        base, newest = self._at.base.version, self.newest
        fallen = newest is not None and is_reverted(base, newest.frame.reverted)
        return Fate(0, {}, fallen=f"v{base} was taken back" if fallen else "")
