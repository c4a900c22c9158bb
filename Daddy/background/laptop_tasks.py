"""What a laptop does beside playing: milestones come and go, work is pushed.

Promises that all of it ends with the visit.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from Daddy.core.names import new_incarnation
from Daddy.errands.errand import Errand, Sender, has_archive, open_archive
from Daddy.visit import Visit

if TYPE_CHECKING:
    from Daddy.learning.console import Commentary

LOOK_S = 2.0


@contextmanager
def errands(visit: Visit, commentary: Commentary) -> Iterator[None]:
    """While the body plays, or learns and contributes."""
    sender = Sender(visit.user_id, new_incarnation()) if visit.contribute else None
    with _pushing(visit), ExitStack() as closing:
        if has_archive(visit.config):
            from Daddy.errands.courier import Courier

            ours = open_archive(visit.config)
            tell = partial(commentary.write, "state", 0)
            courier = Courier(visit.shared, *ours, sender, visit.clock, tell)
            errand = Errand(courier.once, LOOK_S, visit.clock, partial(print, flush=True))
            closing.callback(errand.close)
        yield


def _pushing(visit: Visit) -> AbstractContextManager[None]:
    if not visit.push:
        return nullcontext()
    from Daddy.errands.pushing import pushing

    log, clock = visit.run.logs / "push.log", visit.clock
    return pushing(visit.shared, log, os.environ, Path.home(), clock, partial(print, flush=True))
