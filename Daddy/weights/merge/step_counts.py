"""Pure. Counts a run's environment steps: those of its own jobs, and bounded those of all others.

A laptop or a friend claims its steps in a record that nothing proves. Counted are at most the steps
that the run's fastest own job makes in the time since that peer's last contribution, and of all
laptops and friends together at most as many as of the own jobs.
"""

import statistics
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence

from Daddy.core.name_validation import OWN
from Daddy.core.settings import KEPT_VERSIONS
from Daddy.weights.merge.averaging_shares import LAPTOP_PERIOD_S
from Daddy.weights.store.weight_records import Input, Version


def total_of(contributors: Mapping[str, int]) -> int:
    """Return the run's steps: those of its own jobs, and of all others at most as many again."""
    own = sum(steps for peer, steps in contributors.items() if OWN.fullmatch(peer))
    return own + min(own, sum(contributors.values()) - own)


def fastest_rate(records: Sequence[Version]) -> float:
    """Return the steps a second of the fastest own job in consecutive ``records``, 0 if none is
    measured. A job's rate is the median over its contributions, so that a pause counts once.
    """
    rates: dict[str, list[float]] = defaultdict(list)
    since: dict[str, float] = {}
    for record in records[1:]:
        steps: Counter[str] = Counter()
        for merged in record.inputs:
            if OWN.fullmatch(merged.peer):
                steps[merged.peer] += merged.new_steps
        for peer, made in steps.items():
            if (seconds := record.ts - since.get(peer, records[0].ts)) > 0.0:
                rates[peer].append(made / seconds)
            since[peer] = record.ts
    return max((statistics.median(measured) for measured in rates.values()), default=0.0)


def most_steps(
    rate: float, newest_ts: float, since_ts: float | None, beside: Iterable[Input]
) -> int:
    """Return the steps that a peer may add: ``rate`` times the seconds since ``since_ts``, its last
    contribution. None: its first one, of a laptop's usual period. Without a measured rate: as many
    as the fastest own job ``beside`` it in the same version.
    """
    if rate <= 0.0:
        own = (merged.new_steps for merged in beside if OWN.fullmatch(merged.peer))
        return max(own, default=0)
    seconds = LAPTOP_PERIOD_S if since_ts is None else newest_ts - since_ts
    return int(rate * max(0.0, seconds))


def recount(contributors: Mapping[str, int], records: Iterable[Version]) -> dict[str, int]:
    """Return ``contributors`` with the steps of laptops and friends that all ``records`` of the
    run, oldest first, allow. Steps of own jobs stay as they are.
    """
    counted: Counter[str] = Counter()
    window: deque[Version] = deque(maxlen=KEPT_VERSIONS)
    since: dict[str, float] = {}
    for record in records:
        claims: Counter[str] = Counter()
        for merged in record.inputs:
            if not OWN.fullmatch(merged.peer):
                claims[merged.peer] += merged.new_steps
        rate = fastest_rate(list(window)) if claims else 0.0
        for peer, steps in claims.items():
            newest_ts = window[-1].ts if window else record.ts
            most = most_steps(rate, newest_ts, since.get(peer), record.inputs)
            counted[peer] += min(steps, most)
            since[peer] = newest_ts
        window.append(record)
    return {
        peer: steps if OWN.fullmatch(peer) else min(steps, counted[peer])
        for peer, steps in contributors.items()
    }
