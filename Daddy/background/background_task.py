"""A repeated task on a thread beside learning or playing, and the archive on which tasks work.

An error of a task does not stop the learner: the error is printed, and the task runs again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from Daddy.core.clock import Clock
from Daddy.core.errors import DaddyError
from Daddy.core.load_config import run_paths
from Daddy.core.settings import Config
from Daddy.pokemon.find_rom import cartridge_path, load_configured_rom
from Daddy.workloads import archive_rules, game_options

if TYPE_CHECKING:
    from Daddy.pokemon.archive.archive_store import Archive
    from Daddy.pokemon.archive.claim_replay import ReplayGame

PrintLine = Callable[[str], None]


class BackgroundTask:
    """Calls a function every `every_s` seconds on a thread of its own until it is closed."""

    def __init__(
        self, function: Callable[[], None], every_s: float, clock: Clock, report: PrintLine
    ) -> None:
        self._function, self._every_s, self._clock, self._report = function, every_s, clock, report
        self._stop = threading.Event()
        self._last_error = ""
        threading.Thread(target=self._run, name="background", daemon=True).start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._function()
            except (DaddyError, OSError) as error:
                if self._last_error != str(error):
                    self._report(f"trouble: {error}")
                self._last_error = str(error)
            self._clock.wait(self._stop, self._every_s)

    def close(self) -> None:
        """Start no further call; a running call ends with the process."""
        self._stop.set()


def has_archive(config: Config) -> bool:
    """Return True if the run has an archive: workload pokemon_red and archive.mode not off."""
    return config.training.workload == "pokemon_red" and config.archive.mode != "off"


def open_archive(config: Config) -> tuple[Archive, ReplayGame]:
    """Return the configured archive and the game that replays claims. Raises RomError."""
    from Daddy.pokemon.archive.archive_store import open_archive
    from Daddy.pokemon.archive.claim_replay import ReplayGame
    from Daddy.pokemon.archive.state_format import Compatibility
    from Daddy.pokemon.emulator import PYBOY_VERSION

    training = config.training
    kin = Compatibility(load_configured_rom(training).sha1, PYBOY_VERSION, tuple(training.assists))
    game = ReplayGame(Path(training.rom or cartridge_path()), game_options(training))
    return open_archive(run_paths(config).archive, kin, archive_rules(config)), game
