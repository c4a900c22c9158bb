"""What a person at the window keeps of it: clips and recordings, written beside the play.

Files appear whole, in the folder that the viewer was started in. A thread writes them one after
the other, so that the window goes on meanwhile.
"""

from __future__ import annotations

import queue
import shutil
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from Daddy.core.clock import Clock
from Daddy.core.errors import DaddyError
from Daddy.streaming.show.drawing import Theme
from Daddy.streaming.show.film import save_film
from Daddy.streaming.show.keys import Act
from Daddy.streaming.show.reel import CLIP_S, FILM_FPS, REEL_S, Reel

_MOST_WAITING = 2
"""Films that are being written or wait for it; each holds its pictures."""


class Films:
    """The reel of what is on screen, and the files made from it. :meth:`close` finishes them."""

    def __init__(self, clock: Clock) -> None:
        self.reel = Reel()
        self._clock = clock
        self._began = 0.0
        self._of = ""
        self._files = 0
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._hand = ThreadPoolExecutor(1, "films")
        self._waiting: list[Future[None]] = []

    def take(self, act: Act, name: str, theme: Theme) -> str:
        """Do what a key asks for (CLIP, RECORD, SAVE) with agent ``name``; a word about it."""
        now = self._clock.monotonic()
        if act is Act.RECORD:
            self._began, self._of = now, name
            return f"recording {name}: R ends it, at most {REEL_S:.0f} s"
        if act is Act.SAVE:
            kind = "mp4" if shutil.which("ffmpeg") else "gif"
            return self._write(self._of, self._began, now, theme, kind)
        return self._write(name, now - CLIP_S, now, theme, "gif")

    def full(self, now: float) -> bool:
        """Whether the recording is as long as it can be."""
        return now - self._began >= REEL_S

    def said(self) -> str:
        """What became of a film since the last call, if anything."""
        return "" if self._said.empty() else self._said.get()

    def next_path(self, kind: str) -> Path:
        """A name that says when: ``daddy-1790000000-1.gif``."""
        self._files += 1
        return Path(f"daddy-{round(self._clock.now())}-{self._files}.{kind}").resolve()

    def close(self) -> None:
        """Wait for the films that are being written."""
        self._hand.shutdown(wait=True)
        while text := self.said():
            print(text, flush=True)

    def _write(self, name: str, begin: float, end: float, theme: Theme, kind: str) -> str:
        pictures = self.reel.film(name, begin, end)
        if not pictures:
            return "there is no picture to keep yet"
        self._waiting = [one for one in self._waiting if not one.done()]
        if len(self._waiting) >= _MOST_WAITING:
            return "the films before this one are still being written"
        self._waiting.append(self._hand.submit(self._save, self.next_path(kind), pictures, theme))
        return f"writing {len(pictures) / FILM_FPS:.0f} s of {name}"

    def _save(self, path: Path, pictures: list[bytes], theme: Theme) -> None:
        try:
            save_film(path, pictures, FILM_FPS, theme=theme)
        except (DaddyError, OSError) as error:
            self._said.put(f"no film: {error}")
        else:
            self._said.put(f"saved {path}")
