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
from Daddy.core.process import Conversation, ProgramMissingError, converse

MODULE = "Daddy.pokemon.live.booth"
_READ_BYTES = 1 << 16
_MOST_WORDS = 1_024
"""Words that wait for an emulator that does not read: none may be lost, least of all a LEAVE."""
_GOODBYE_S = 2.0


class Stage:
    """Started with the first word. ``heard`` and ``ended`` are called on a thread of its own.

    Ends once: what has hung or died here would do so again.
    """

    def __init__(
        self, command: Sequence[str], heard: Callable[[Word], None], ended: Callable[[str], None]
    ) -> None:
        self._command, self._heard, self._ended = tuple(command), heard, ended
        self._begun = self._closed = False
        self._why = ""
        self._pipe: socket.socket | None = None
        self._words: deque[Word] = deque()
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._live, name="stage", daemon=True)

    def say(self, word: Word) -> None:
        """Never waits; what is said after the end is lost. Where too many wait, that is the end."""
        with self._news:
            if self._closed or self._why:
                return
            if len(self._words) >= _MOST_WORDS:
                self._why = f"it does not read, and {_MOST_WORDS} words wait"
                self._hang_up()
                return
            self._words.append(word)
            self._news.notify()
            if not self._begun:
                self._begun = True
                self._thread.start()

    def _live(self) -> None:
        """From the process's start to its end, on one thread: it dies with whoever started it."""
        try:
            why = self._converse()
        except ProgramMissingError as error:
            why = error.message
        except OSError as error:
            why = f"its process cannot be started: {error.strerror}"
        with self._news:
            was_closed, self._closed = self._closed, True
            self._words.clear()
            self._news.notify_all()
        if not was_closed:
            self._ended(self._why or why)

    def _converse(self) -> str:
        """Why it ended. OSError and ProgramMissingError when it cannot begin."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                child = converse(self._command, theirs.fileno())
            with self._news:
                self._pipe = ours
                if self._closed or self._why:
                    self._hang_up()
            threading.Thread(target=self._write, args=(ours,), daemon=True).start()
            why = self._read(ours)
            with self._news:
                self._pipe = None
        child.end(_GOODBYE_S)
        return why or _last_words(child)

    def _hang_up(self) -> None:
        """Whoever reads or writes the pipe is done with it; under the lock."""
        if self._pipe is not None:
            with contextlib.suppress(OSError):
                self._pipe.shutdown(socket.SHUT_RDWR)

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

    def _next(self) -> Word | None:
        """The next word as soon as there is one; None at the end."""
        with self._news:
            self._news.wait_for(lambda: self._words or self._closed)
            return None if self._closed else self._words.popleft()

    def close(self) -> None:
        """End the process."""
        with self._news:
            self._closed = True
            self._hang_up()
            self._news.notify_all()
        if self._begun:
            self._thread.join(2 * _GOODBYE_S)


def _last_words(child: Conversation) -> str:
    told = (line.removeprefix("error: ") for line in child.said() if line.startswith("error: "))
    return next(told, "it ended")


def command(rom: str | None) -> list[str]:
    """What plays; ``rom`` is the person's game (None: as configured, else the cartridge)."""
    return [sys.executable, "-m", MODULE, *(["--rom", rom] if rom else [])]
