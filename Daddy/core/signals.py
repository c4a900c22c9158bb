"""An event that signals set without harm to what they interrupt.

A handler runs in the middle of the main thread's work. One that sets the event being waited for may
wait for a lock which that very wait holds; one that raises may leave a lock of the library taken
for good. So the handler only writes a byte, and a thread that reads it sets the event.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading


class Alarm(threading.Event):
    """An event that a handler may :meth:`ring`; it is set a moment later.

    Keeps a thread until then, and two descriptors for good: meant for one or two in a process.
    """

    def __init__(self) -> None:
        super().__init__()
        self._ear, self._bell = os.pipe()
        os.set_blocking(self._bell, False)
        threading.Thread(target=self._listen, name="alarm", daemon=True).start()

    def ring(self) -> None:
        """Have it set. Takes no lock; once is enough."""
        with contextlib.suppress(BlockingIOError):  # rung so often that it is surely heard
            os.write(self._bell, b"!")

    def _listen(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # the main thread's
        os.read(self._ear, 1)
        self.set()


def set_by(*numbers: int) -> Alarm:
    """An event that each of these signals sets from now on; main thread only."""
    alarm = Alarm()
    for number in numbers:
        signal.signal(number, lambda *_: alarm.ring())
    return alarm
