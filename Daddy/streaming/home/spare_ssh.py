"""Door to the spare carrier: paramiko takes the calls where no ``ssh`` is installed.

To ``connect`` it is what a running ssh is: it has begun, says lines, and ends with a status; what
it could not do it raises, with what a person can do about it.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable

from Daddy.core.clock import Clock
from Daddy.core.errors import DaddyError, NetworkError
from Daddy.core.ssh.lines import Line
from Daddy.core.ssh.login import Host
from Daddy.core.ssh.troubles import INSTALL, PersonNeededError
from Daddy.streaming.home.calls import allocated
from Daddy.streaming.home.orders import Order, Target

_LINES = 40


class SpareSsh:
    """One call: it begins at once, on a thread, since a login takes its time.

    ``connection`` stands for the command's standard input and output, and is closed in the end;
    ``local`` is the port here that a port there leads to.
    """

    def __init__(
        self, target: Target, order: Order, local: int, connection: socket.socket, clock: Clock
    ) -> None:
        self._host = host_of(target, order.key)
        self._order, self._local, self._clock = order, local, clock
        self._connection = connection
        self._said: deque[str] = deque(maxlen=_LINES)
        self._lock = threading.Lock()
        self._line: Line | None = None
        self._over = False
        self._status: Callable[[], int | None] = _none
        self._trouble: NetworkError | None = None
        self._thread = threading.Thread(target=self._begin, name="spare-ssh", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Whether the command has ended, or does within ``seconds``; NetworkError says why it, or
        the connection, cannot go on.
        """
        self._clock.wait(threading.Event(), seconds)
        if self.exit_code is not None:
            return True
        if self._trouble is not None:
            raise self._trouble
        if (line := self._line) is not None:
            line.check()
        return False

    @property
    def exit_code(self) -> int | None:
        """The command's; None while there is none."""
        return self._status()

    def said(self) -> tuple[str, ...]:
        """The last lines of its standard error, and the port we were given as ssh tells it."""
        return tuple(self._said)

    def end(self, grace_s: float) -> None:
        """Hang up; a login that is under way is given up as soon as it has an outcome."""
        with self._lock:
            self._over, line = True, self._line
        if line is not None:
            line.close()
        self._thread.join(grace_s)

    def _begin(self) -> None:
        try:
            line = Line(self._host, self._clock)
            with self._lock:
                self._line, over = line, self._over
            if over:
                line.close()
            else:
                self._carry_out(line)
        except NetworkError as error:
            self._trouble = error
        except DaddyError as error:  # a config file that cannot be read
            self._trouble = PersonNeededError(error.message, error.fix)
        except OSError as error:
            self._trouble = NetworkError(f"this computer: {error.strerror or error}")
        except Exception as error:  # noqa: BLE001  # nobody else sees how this thread ends
            text = f"paramiko cannot make this login ({type(error).__name__}: {error})"
            self._trouble = PersonNeededError(text, INSTALL)
        finally:
            self._connection.close()

    def _carry_out(self, line: Line) -> None:
        if self._order.listen is not None:
            port = line.forward(self._order.listen, self._local)
            if not self._order.listen:
                self._said.append(allocated(port))
        if self._order.command:
            pipes = self._connection.dup()
            self._status = line.run(self._order.command, pipes, self._said.append)


def host_of(target: Target, only_key: str) -> Host:
    """The words for ssh that ``whom`` has found, as facts."""
    words = dict(zip(target.whom[::2], target.whom[1::2], strict=True))
    return Host(
        target.host,
        target.user,
        words.get("-p", ""),
        only_key or words.get("-i", ""),
        words.get("-F", ""),
        agent=not only_key,
        named_only="identitiesonly=yes" in {word.lower() for word in target.whom},
    )


def _none() -> None:
    return None
