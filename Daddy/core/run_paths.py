"""The names of all files of a run and of its mirror, as functions of a root folder.

`shared_weights_paths` has those of the shared weights. Nothing here reads the disk.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from Daddy.core.shared_weights_paths import PathBelow, SharedPaths

STREAM_TOKEN = Path(".config/daddy/stream.token")
"""The stream's token in a person's home, on the login node and on the laptop."""


@dataclass(frozen=True, slots=True)
class SlotPaths:
    """The folder of one slot: a run has `max_running` slots, each trained by one job at a time."""

    root: Path

    lease = PathBelow("lease")
    """The lease of the slot, with the holder's heartbeat."""
    checkpoints = PathBelow("checkpoints")
    """Complete states of the slot's learner, from which the slot's next job resumes."""


@dataclass(frozen=True, slots=True)
class ReleasePaths:
    """One release: ``Daddy/`` (the code) and the files beside it."""

    root: Path

    config = PathBelow("config.json")
    """The effective configuration."""
    parcel = PathBelow("package.tar")
    """Code, bytecode and configuration in one file, for jobs to unpack on their node."""
    stamp = PathBelow("stamp.json")
    """Hashes of the code, settings and environment of the release."""


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
    queue = PathBelow("queue")
    """The local scheduler's queue on disk."""
    rendezvous = PathBelow("rendezvous.json")
    """The address at which rank 0 of a Slurm job listens for its other ranks."""
    archive = PathBelow("archive")
    """Save states by milestone, shared by the run's learners."""
    shared_weights = PathBelow("shared_weights")
    """The shared weights, unless the configuration names another folder."""
    controller = PathBelow("controller")
    controller_lease = PathBelow("controller/lease")
    identity = PathBelow("controller/identity.json")
    """The name of the run's jobs in the queue, fixed at the first start."""
    intent = PathBelow("controller/intent.json")
    """The state that the person asked for: running or stopped."""
    ledger = PathBelow("controller/ledger.jsonl")
    """The controller's actions and their outcomes, appended and fsynced."""
    status = PathBelow("controller/status.json")
    """The controller's last view of the queue, for ``status`` while the scheduler is down."""
    orders = PathBelow("controller/orders.json")
    """Slots that a starting job may claim, and the release to run in each."""
    failover = PathBelow("controller/failover.json")
    """Permission for jobs to make the controller's passes, and its reason."""
    mirrored = PathBelow("controller/mirror.json")
    """State of the copy in the home directory, and problems of the shared weights."""
    calls = PathBelow("controller/calls")
    """Number of scheduler commands, by host and day."""
    stream = PathBelow("stream")
    """Frames of the stream, the viewer's requests, and the stream's token."""
    relay = PathBelow("stream/relay.json")
    """Host and process of the stream's relay, written by the relay at its start."""

    def release(self, ident: str) -> ReleasePaths:
        return ReleasePaths(self.releases / ident)

    def slot(self, number: int) -> SlotPaths:
        return SlotPaths(self.slots / str(number))


RUN_NAMES = frozenset(
    Path(entry.name).parts[0] for entry in vars(RunPaths).values() if isinstance(entry, PathBelow)
)
"""Names in a run directory that Daddy makes; other files there are the person's."""


@dataclass(frozen=True, slots=True)
class MirrorPaths:
    """The copy of a run in the home directory, laid out like a run: the same code reads both."""

    root: Path

    card = PathBelow("MIRROR.json")
    """The copied run and the version that the copy holds; written last."""

    @property
    def copied_run(self) -> RunPaths:
        return RunPaths(self.root)

    @property
    def shared(self) -> SharedPaths:
        return SharedPaths(self.copied_run.shared_weights)


def mirrors_folder(configured: str, environ: Mapping[str, str], home: Path) -> Path:
    """Return the folder of all mirrors: ``configured``, or one in the user's data folder."""
    if configured:
        return Path(configured).expanduser().absolute()
    data = environ.get("XDG_DATA_HOME", "")
    base = Path(data) if data.startswith("/") else home / ".local" / "share"
    return base / "daddy" / "mirrors"
