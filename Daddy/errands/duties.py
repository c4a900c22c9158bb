"""What a job does beside learning: it judges and shows milestones.

Promises that all of it ends with the job. A friend's job has no such duties in another's run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from Daddy.core.config import shared_paths
from Daddy.errands.errand import Errand, has_archive, open_archive
from Daddy.learning.attempt import Attempt


@contextmanager
def duties(attempt: Attempt, slot: int) -> Iterator[None]:
    """While the body learns in ``slot``."""
    sharing = attempt.config.collaboration
    with ExitStack() as closing:
        if sharing.enabled and not sharing.join and has_archive(attempt.config):
            closing.enter_context(_post(attempt, f"slot-{slot}"))
        yield


@contextmanager
def _post(attempt: Attempt, peer: str) -> Iterator[None]:
    """Milestones go to the run's laptops and come from them."""
    from Daddy.errands.postmaster import LOOK_S, Postmaster
    from Daddy.weights.store.store import Store

    config, say = attempt.config, partial(print, flush=True)
    postmaster = Postmaster(
        Store(shared_paths(config)), *open_archive(config), peer, attempt.clock, say
    )
    errand = Errand(postmaster.once, LOOK_S, attempt.clock, say)
    try:
        yield
    finally:
        errand.close()
        postmaster.leave()
