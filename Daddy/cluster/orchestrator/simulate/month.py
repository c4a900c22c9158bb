"""One month of one policy on one site: everything follows from the scenario and the seed."""

from __future__ import annotations

from random import Random

from Daddy.cluster.orchestrator.simulate.jobs import Month
from Daddy.cluster.orchestrator.simulate.ours import Ours
from Daddy.cluster.orchestrator.simulate.rivals import RIVALS
from Daddy.cluster.orchestrator.simulate.rows import NO_DAEMON, OURS
from Daddy.cluster.orchestrator.simulate.scenario import DAY_S, Scenario
from Daddy.cluster.orchestrator.simulate.site import Person, Site
from Daddy.cluster.orchestrator.simulate.weather import make_weather


def make_site(scenario: Scenario, policy: str, seed: int) -> tuple[Site, Person]:
    """A site before its month, and who will use it. Every policy of a seed meets one weather."""
    site = Site(
        scenario, make_weather(scenario, Random(f"weather {seed}")), Random(f"jobs {policy} {seed}")
    )
    if policy in (OURS, NO_DAEMON):
        return site, Ours(site, daemon=policy == OURS)
    return site, RIVALS[policy](site)


def live(scenario: Scenario, policy: str, seed: int) -> Month:
    """The whole month."""
    site, person = make_site(scenario, policy, seed)
    books = site.live(person)
    days = scenario.span_s / DAY_S
    return Month(books.used, books.idle, books.submissions / days, books.commands / days)
