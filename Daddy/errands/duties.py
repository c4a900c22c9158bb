"""What a job does beside learning: it judges and shows milestones, and examines versions.

Promises that all of it ends with the job. A friend's job has no such duties in another's run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from Daddy.core import process
from Daddy.core.config import effective_json, shared_paths
from Daddy.core.files import write_atomic
from Daddy.core.machine import end_tree
from Daddy.errands.errand import Errand, has_archive, open_archive
from Daddy.learning.attempt import Attempt

EXAMINER_GRACE_S = 1.0


@contextmanager
def duties(attempt: Attempt, slot: int, incarnation: str) -> Iterator[None]:
    """While the body learns in ``slot`` as the process ``incarnation``."""
    sharing = attempt.config.collaboration
    with ExitStack() as closing:
        if sharing.enabled and not sharing.join:
            if sharing.examine_share:
                closing.enter_context(_examining(attempt, slot, incarnation))
            if has_archive(attempt.config):
                closing.enter_context(_post(attempt, f"slot-{slot}"))
        yield


@contextmanager
def _examining(attempt: Attempt, slot: int, incarnation: str) -> Iterator[None]:
    """Beside us, and not longer than us, whoever plays the versions on probation."""
    file, peer = attempt.run.slot(slot).root / "examiner.json", f"slot-{slot}"
    write_atomic(file, effective_json(attempt.config), durable=False)
    argv = [sys.executable, "-m", "Daddy.errands.examiner", "--config", str(file), "--peer", peer]
    argv += ["--incarnation", incarnation, "--parent", str(os.getpid())]
    who = process.start(argv, log_path=attempt.run.logs / f"examiner-{peer}.log")
    try:
        yield
    finally:
        end_tree(who, EXAMINER_GRACE_S)


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
