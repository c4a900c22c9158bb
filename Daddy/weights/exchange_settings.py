"""Pure. Holds the numbers of the exchange that a config may set, with their reasons."""

from collections.abc import Mapping
from dataclasses import dataclass

from Daddy.core import agreed_settings
from Daddy.core.settings import KEPT_VERSIONS, Config
from Daddy.weights.store.weight_records import AgreedSettings

RULES = ("delta", "polyak")
PERIOD_S = 60.0
"""Longest wait of a contribution for others: a version a minute is enough for long jobs."""

SILENCE_S = 180.0
"""Seconds without a new heartbeat after which a process counts as gone."""


@dataclass(frozen=True, slots=True)
class ExchangeSettings:
    """One peer's settings of the exchange.

    ``rule``: "delta" adds progress since the base; "polyak" averages absolute weights with the
    share ``alpha``, and so undoes others' work when a writer is stale. A contribution waits at most
    ``period_s`` for others; a process is gone when its heartbeat stands still for ``silence_s``.
    Staleness is counted in versions. ``keep_versions`` states stay on disk. ``wan`` offers versions
    to laptops, of which ``allowed`` may contribute (empty: all). ``assists`` and the settings
    ``terms`` are equal for all; laptops get ``laptop_terms`` and the ``release`` of this run's
    jobs.
    """

    run: str
    workload: str
    rule: str = "delta"
    alpha: float = 0.5
    period_s: float = PERIOD_S
    silence_s: float = SILENCE_S
    max_staleness: int = 4
    laptop_max_staleness: int = 8
    keep_versions: int = KEPT_VERSIONS
    wan: bool = True
    allowed: frozenset[str] = frozenset()
    assists: tuple[str, ...] = ()
    terms: AgreedSettings = ()
    laptop_terms: AgreedSettings = ()
    release: str = ""


def from_config(
    config: Config, workload: str, facts: Mapping[str, str] | None = None, release: str = ""
) -> ExchangeSettings:
    """Read the exchange settings of ``config``; ``facts`` as for `agreed_settings`."""
    chosen = config.collaboration
    return ExchangeSettings(
        run=config.run_name,
        workload=workload,
        rule=chosen.rule,
        period_s=config.slurm.limit_interval(PERIOD_S),
        allowed=frozenset(chosen.allowed_user_ids),
        assists=tuple(config.training.assists),
        terms=agreed_settings.contract_to_pairs(agreed_settings.agreed_settings(config, facts)),
        laptop_terms=agreed_settings.contract_to_pairs(
            agreed_settings.offered_settings(config, facts)
        ),
        release=release,
    )
