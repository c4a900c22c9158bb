"""What a laptop does beside playing: milestones come and go, versions are compared, work is pushed.

Promises that all of it ends with the visit.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from Daddy.core.names import new_incarnation
from Daddy.errands.errand import Errand, Sender, has_archive, open_archive
from Daddy.visit import Visit

if TYPE_CHECKING:
    from Daddy.learning.commentary import Commentary

GRACE_S = 5.0
LOOK_S = 2.0


@contextmanager
def errands(visit: Visit, commentary: Commentary) -> Iterator[None]:
    """While the body plays, or learns and contributes."""
    sender = Sender(visit.user_id, new_incarnation()) if visit.contribute else None
    with _pushing(visit), ExitStack() as closing:
        closing.enter_context(_comparing(visit, commentary, sender))
        if has_archive(visit.config):
            from Daddy.errands.courier import Courier

            ours = open_archive(visit.config)
            tell = partial(commentary.write, "state", 0)
            courier = Courier(visit.shared, *ours, sender, visit.clock, tell)
            errand = Errand(courier.once, LOOK_S, visit.clock, partial(print, flush=True))
            closing.callback(errand.close)
        yield


@contextmanager
def _comparing(visit: Visit, commentary: Commentary, sender: Sender | None) -> Iterator[None]:
    from Daddy.errands.referee import Referee

    stop = threading.Event()
    tell = partial(commentary.write, "state", 0)
    where = (visit.shared, visit.config, sender, visit.clock)
    referee = Referee(*where, tell, stop.is_set)
    errand = Errand(referee.once, LOOK_S, visit.clock, partial(print, flush=True))
    try:
        yield
    finally:
        stop.set()
        errand.close(GRACE_S)
        referee.close()


def _pushing(visit: Visit) -> AbstractContextManager[None]:
    if not visit.push:
        return nullcontext()
    from Daddy.errands.pushing import pushing

    log, clock = visit.run.logs / "push.log", visit.clock
    return pushing(visit.shared, log, os.environ, Path.home(), clock, partial(print, flush=True))
