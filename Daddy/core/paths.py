"""Every file name of a run and of its mirror, said once; `shared_paths` has the shared weights'.

Functions of a root that is passed in; nothing here touches the disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from Daddy.core.shared_paths import SharedPaths

STREAM_TOKEN = Path(".config/daddy/stream.token")
"""The stream's token in a person's home, on the login node and on the laptop."""
ATTACH = "attach"
"""Of a run's stream folder: the script by which a viewer's own ssh starts a relay."""
HOME_ATTACH = f".config/daddy/{ATTACH}"
"""In the home folder: the same for the run whose relay began last."""


@dataclass(frozen=True, slots=True)
class SlotPaths:
    """The folder of one of the run's permanent places for a job."""

    root: Path

    @property
    def lease(self) -> Path:
        """Terms of whoever fills the slot, and the holder's beat."""
        return self.root / "lease"

    @property
    def checkpoints(self) -> Path:
        """Private, complete states of the slot's learner."""
        return self.root / "checkpoints"


@dataclass(frozen=True, slots=True)
class ReleasePaths:
    """One release: ``Daddy/`` (the code) and what stands beside it."""

    root: Path

    @property
    def config(self) -> Path:
        """The effective configuration."""
        return self.root / "config.json"

    @property
    def parcel(self) -> Path:
        """Code, bytecode and configuration in one file, for jobs to unpack on their node."""
        return self.root / "package.tar"

    @property
    def stamp(self) -> Path:
        """What the release was made of."""
        return self.root / "stamp.json"


@dataclass(frozen=True, slots=True)
class RunPaths:
    """One run directory: config, events, logs, checkpoints, controller, stream."""

    root: Path

    @property
    def config(self) -> Path:
        return self.root / "config.json"

    @property
    def events(self) -> Path:
        return self.root / "events"

    @property
    def backend(self) -> Path:
        """What was measured of the ways to run environments side by side."""
        return self.root / "backend.json"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def scripts(self) -> Path:
        return self.root / "scripts"

    @property
    def releases(self) -> Path:
        return self.root / "releases"

    def release(self, ident: str) -> ReleasePaths:
        return ReleasePaths(self.releases / ident)

    @property
    def controller(self) -> Path:
        return self.root / "controller"

    @property
    def controller_lease(self) -> Path:
        return self.controller / "lease"

    @property
    def intent(self) -> Path:
        """What the person wants: running or stopped."""
        return self.controller / "intent.json"

    @property
    def ledger(self) -> Path:
        """Intents and outcomes, appended and fsynced."""
        return self.controller / "ledger.jsonl"

    @property
    def status(self) -> Path:
        """The controller's last look, for ``status`` when the scheduler is silent."""
        return self.controller / "status.json"

    @property
    def orders(self) -> Path:
        """Which slots a starting job may claim, and what to run there."""
        return self.controller / "orders.json"

    @property
    def failover(self) -> Path:
        """Whether jobs here may make the controller's passes, and what says so."""
        return self.controller / "failover.json"

    @property
    def mirrored(self) -> Path:
        """How the copy in the home directory stands, and what the shared weights lack."""
        return self.controller / "mirror.json"

    @property
    def calls(self) -> Path:
        """How often the scheduler was asked, by host and day."""
        return self.controller / "calls"

    @property
    def queue(self) -> Path:
        """The local scheduler's queue on disk."""
        return self.root / "queue"

    @property
    def slots(self) -> Path:
        return self.root / "slots"

    def slot(self, number: int) -> SlotPaths:
        return SlotPaths(self.slots / str(number))

    @property
    def archive(self) -> Path:
        """Save states by milestone, shared by the run's learners."""
        return self.root / "archive"

    @property
    def stream(self) -> Path:
        """Spool, wish list and token of the stream."""
        return self.root / "stream"

    @property
    def relay(self) -> Path:
        """Where the stream's relay runs, as it says itself when it begins."""
        return self.stream / "relay.json"

    @property
    def tensorboard(self) -> Path:
        return self.root / "tensorboard"

    @property
    def shared_weights(self) -> Path:
        """Where the shared weights live unless the config names another folder."""
        return self.root / "shared_weights"

    @property
    def report(self) -> Path:
        return self.root / "report.png"

    @property
    def summary(self) -> Path:
        return self.root / "summary.json"


@dataclass(frozen=True, slots=True)
class MirrorPaths:
    """One run's copy in the home directory: laid out like a run, so that all that reads one can."""

    root: Path

    @property
    def card(self) -> Path:
        """Which run this is a copy of, and which version it holds; written last."""
        return self.root / "MIRROR.json"

    @property
    def run(self) -> RunPaths:
        return RunPaths(self.root)

    @property
    def shared(self) -> SharedPaths:
        return SharedPaths(self.run.shared_weights)


def mirrors_folder(configured: str, environ: Mapping[str, str], home: Path) -> Path:
    """The folder of all copies: the configured one, else one among the home's data."""
    if configured:
        return Path(configured).expanduser().absolute()
    data = environ.get("XDG_DATA_HOME", "")
    base = Path(data) if data.startswith("/") else home / ".local" / "share"
    return base / "daddy" / "mirrors"
