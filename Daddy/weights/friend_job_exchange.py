"""The exchange of a friend's job in another account's run.

It reads the owner's folder and writes the friend's own, from which the owner's jobs read and merge
contributions. The friend's own jobs remove contributions that a version has judged.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace

from Daddy.core.clock import Clock
from Daddy.core.errors import DaddyError, FileError, WeightsError
from Daddy.core.friend_accounts import (
    check_run_readable,
    find_own_entry,
    make_readable_folder,
    permission_commands,
    record_joined_run,
)
from Daddy.core.shared_types import EventSink
from Daddy.core.shared_weights_paths import JoinedPaths, SharedPaths
from Daddy.weights.encoding.state_arithmetic import StateDict
from Daddy.weights.exchange_settings import RULES, ExchangeSettings
from Daddy.weights.merge.contributions import list_contributions
from Daddy.weights.store.crash_safe_files import Hook, no_hook
from Daddy.weights.store.heartbeats import own_process_folders
from Daddy.weights.store.weight_records import RunCard, Version
from Daddy.weights.store.weight_store import Store
from Daddy.weights.weight_exchange import SharedExchange


class JoinedStore(Store):
    """Joins the owner's versions and our own offers; writes nothing to the owner's folder."""

    def __init__(self, paths: SharedPaths, hook: Hook = no_hook) -> None:
        super().__init__(paths, hook)
        self.writer.world_readable = True

    def list_problems(self) -> list[str]:
        """Add two faults: the owner does not list this account; the owner cannot read it."""
        faults = super().list_problems()
        assert isinstance(self.paths, JoinedPaths)
        try:
            find_own_entry(self.paths, os.getuid())
        except (FileError, WeightsError) as error:
            faults.append(f"this account's jobs do not count: {error}")
        if lines := permission_commands(self.paths.root):
            faults.append(f"the run's owner may not be able to read here; type {' ; '.join(lines)}")
        return faults

    def mend_blob(self, data: bytes) -> None:
        """Do nothing: the owner's jobs repair the blobs in the owner's folder."""

    def _begin(self, own: RunCard) -> None:
        """Write no ``RUN.json``: the owner's first job does."""


def join_run(
    paths: JoinedPaths,
    slot: str,
    incarnation: str,
    settings: ExchangeSettings,
    clock: Clock,
    events: EventSink,
    *,
    term: int = 0,
) -> JoinedExchange:
    """Prepare our folder; return the exchange of a friend's job in ``slot``. Raise WeightsError,
    with the commands for the owner or the friend, when the job cannot take part. The rule is the
    owner's.
    """
    check_run_readable(paths)
    make_readable_folder(paths.root)
    friend = find_own_entry(paths, os.getuid())
    record_joined_run(paths)
    store = JoinedStore(paths)
    if (newest := store.newest()) is not None:
        settings = replace(settings, rule=store.version(newest).rule)
    if settings.rule not in RULES:
        raise WeightsError(
            f"the run merges by the rule {settings.rule!r}, which this release does not know",
            "ask its owner for a run with the rule delta",
        )
    peer = f"{friend.name}.{slot}"
    return JoinedExchange(paths, peer, incarnation, settings, clock, events, term=term)


class JoinedExchange(SharedExchange):
    """The WeightExchange of a friend's job; its peer name starts with the friend's name."""

    store_class = JoinedStore

    def _write_first(self, weights: StateDict, run_id: str, schema: str) -> None:  # noqa: ARG002
        """Raise WeightsError: only the owner's jobs write version 0."""
        raise WeightsError(
            f"{self._store.paths.merged} holds no version yet",
            "the run's owner starts first; join once there is a version",
        )

    def _merge(self, period_s: float | None = None) -> None:  # noqa: ARG002
        """Report problems of the folders and read the newest version; only the owner merges."""
        self._report_problems()
        self._store.newest()

    def _repair_heads(self, record: Version, state: StateDict) -> None:  # noqa: ARG002
        """Remove this account's contributions that a version has judged, and stray files."""
        with contextlib.suppress(OSError, DaddyError):  # another of our jobs does the same
            for folder in own_process_folders(self._store):
                judged = record.judged(f"{folder.parent.name}/{folder.name}")
                for number, path in list_contributions(folder):
                    if number <= judged:
                        path.unlink(missing_ok=True)
            self._merger.sweeper.after_merge(record, [], self._merger.reader.read_peers(record))
