"""Name every file of a run and of its mirror; `shared_weights_paths` names the shared weights'.

Functions of a root that is passed in; nothing here touches the disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from Daddy.core.shared_weights_paths import PathBelow, SharedPaths

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

    lease = PathBelow("lease")
    """Terms of whoever fills the slot, and the holder's beat."""
    checkpoints = PathBelow("checkpoints")
    """Private, complete states of the slot's learner."""


@dataclass(frozen=True, slots=True)
class ReleasePaths:
    """One release: ``Daddy/`` (the code) and what stands beside it."""

    root: Path

    config = PathBelow("config.json")
    """The effective configuration."""
    parcel = PathBelow("package.tar")
    """Code, bytecode and configuration in one file, for jobs to unpack on their node."""
    stamp = PathBelow("stamp.json")
    """What the release was made of."""


@dataclass(frozen=True, slots=True)
class RunPaths:
    """One run directory: config, events, logs, checkpoints, controller, stream."""

    root: Path

    config = PathBelow("config.json")
    events = PathBelow("events")
    logs = PathBelow("logs")
    scripts = PathBelow("scripts")
    releases = PathBelow("releases")
    slots = PathBelow("slots")
    tensorboard = PathBelow("tensorboard")
    report = PathBelow("report.png")
    summary = PathBelow("summary.json")
    backend = PathBelow("backend.json")
    """What was measured of the ways to run environments side by side."""
    queue = PathBelow("queue")
    """The local scheduler's queue on disk."""
    archive = PathBelow("archive")
    """Save states by milestone, shared by the run's learners."""
    shared_weights = PathBelow("shared_weights")
    """Place of the shared weights unless the config names another folder."""
    controller = PathBelow("controller")
    controller_lease = PathBelow("controller/lease")
    intent = PathBelow("controller/intent.json")
    """What the person wants: running or stopped."""
    ledger = PathBelow("controller/ledger.jsonl")
    """Intents and outcomes, appended and fsynced."""
    status = PathBelow("controller/status.json")
    """The controller's last look, for ``status`` when the scheduler is silent."""
    orders = PathBelow("controller/orders.json")
    """Which slots a starting job may claim, and what to run there."""
    failover = PathBelow("controller/failover.json")
    """Whether jobs here may make the controller's passes, and what says so."""
    mirrored = PathBelow("controller/mirror.json")
    """How the copy in the home directory stands, and what the shared weights lack."""
    calls = PathBelow("controller/calls")
    """How often the scheduler was asked, by host and day."""
    stream = PathBelow("stream")
    """Spool, wish list and token of the stream."""
    relay = PathBelow("stream/relay.json")
    """Where the stream's relay runs, as it says itself when it begins."""

    def release(self, ident: str) -> ReleasePaths:
        return ReleasePaths(self.releases / ident)

    def slot(self, number: int) -> SlotPaths:
        return SlotPaths(self.slots / str(number))


@dataclass(frozen=True, slots=True)
class MirrorPaths:
    """One run's copy in the home directory: laid out like a run, so that all that reads one can."""

    root: Path

    card = PathBelow("MIRROR.json")
    """Which run this is a copy of, and which version it holds; written last."""

    @property
    def copied_run(self) -> RunPaths:
        return RunPaths(self.root)

    @property
    def shared(self) -> SharedPaths:
        return SharedPaths(self.copied_run.shared_weights)


def mirrors_folder(configured: str, environ: Mapping[str, str], home: Path) -> Path:
    """The folder of all copies: the configured one, else one among the home's data."""
    if configured:
        return Path(configured).expanduser().absolute()
    data = environ.get("XDG_DATA_HOME", "")
    base = Path(data) if data.startswith("/") else home / ".local" / "share"
    return base / "daddy" / "mirrors"
