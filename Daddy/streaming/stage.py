"""Door to the emulator beside a viewer: a process that is started when there is something to play.

The viewer names a module and the person's game, and exchanges words (``core.booth``); a game that
hangs or dies costs the pictures of the emulator, never the window.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence

from Daddy.core.booth import Splitter, Word
from Daddy.core.process import Conversation, converse

MODULE = "Daddy.pokemon.live.booth"
_READ_BYTES = 1 << 16
_MOST_WORDS = 1_024
"""Words that wait for an emulator that does not read; more are lost, which breaks their chains."""
_GOODBYE_S = 2.0


class Stage:
    """Started with the first word. ``heard`` and ``ended`` are called on a thread of its own."""

    def __init__(
        self, command: Sequence[str], heard: Callable[[Word], None], ended: Callable[[str], None]
    ) -> None:
        self._command, self._heard, self._ended = tuple(command), heard, ended
        self._begun = self._closed = False
        self._words: deque[Word] = deque()
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._live, name="stage", daemon=True)

    def say(self, word: Word) -> None:
        """Never waits; what is said after the end is lost."""
        with self._news:
            if not self._closed and len(self._words) < _MOST_WORDS:
                self._words.append(word)
                self._news.notify()
            if not self._begun and not self._closed:
                self._begun = True
                self._thread.start()

    def _live(self) -> None:
        """From the process's start to its end, on one thread: it dies with whoever started it."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                child = converse(self._command, theirs.fileno())
            threading.Thread(target=self._write, args=(ours,), daemon=True).start()
            why = self._read(ours)
        child.end(_GOODBYE_S)
        if not self._closed:
            self._ended(why or _last_words(child))

    def _read(self, pipe: socket.socket) -> str:
        """Until it ends; what was wrong with its words, if anything."""
        splitter = Splitter()
        try:
            with contextlib.suppress(OSError):
                while data := pipe.recv(_READ_BYTES):
                    for word in splitter.feed(data):
                        self._heard(word)
        except ValueError as error:
            return f"it said what is no word: {error}"
        return ""

    def _write(self, pipe: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while (word := self._next()) is not None:
                pipe.sendall(word.pack())
            pipe.shutdown(socket.SHUT_RDWR)

    def _next(self) -> Word | None:
        """The next word as soon as there is one; None at the end."""
        with self._news:
            self._news.wait_for(lambda: self._words or self._closed)
            return None if self._closed else self._words.popleft()

    def close(self) -> None:
        """End the process; it gets a moment to do so itself."""
        with self._news:
            self._closed = True
            self._news.notify_all()
        if self._begun:
            self._thread.join(3 * _GOODBYE_S)


def _last_words(child: Conversation) -> str:
    told = (line.removeprefix("error: ") for line in child.said() if line.startswith("error: "))
    return next(told, "it ended")


def command(rom: str | None) -> list[str]:
    """What plays; ``rom`` is the person's game (None: as configured, else the cartridge)."""
    return [sys.executable, "-m", MODULE, *(["--rom", rom] if rom else [])]
