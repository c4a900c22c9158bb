"""Entry of a spawned env process, named by `vector_processes`: prepares the imports, then loads.

An env process imports this module first; the fork server preloads it. Both learn of the driver's
end by a closed pipe, which they read only after their imports. If the driver is killed while this
module is imported, a timer ends the process; a thread would still be there when the server forks.
"""

import os
import signal

from Daddy.learning.startup_preloading import prepare_imports

_CHECK_S = 0.5
_PARENT = os.getppid()


def _end_after_parent(*_: object) -> None:
    if os.getppid() != _PARENT:
        os._exit(1)


_previous = signal.signal(signal.SIGALRM, _end_after_parent)
signal.setitimer(signal.ITIMER_REAL, _CHECK_S, _CHECK_S)
prepare_imports()

from Daddy.learning.vector_worker import run_worker  # noqa: E402 - after the preparation

signal.setitimer(signal.ITIMER_REAL, 0)
signal.signal(signal.SIGALRM, _previous)

__all__ = ["run_worker"]
