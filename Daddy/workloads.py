"""What can be trained. The only table of its kind: one row per workload, and no logic.

Heavy libraries are loaded by the row's functions, not by this module, so that anything may ask for
the names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from Daddy.core.settings import Config
from Daddy.core.vocabulary import AgentReport
from Daddy.pokemon.map_names import map_name

if TYPE_CHECKING:
    import gymnasium
    from gymnasium.spaces import Dict as DictSpace
    from gymnasium.spaces import Discrete

    from Daddy.learning.policy import ActorCritic
    from Daddy.learning.ports import VectorEnv

EnvFactory = Callable[[], "gymnasium.Env[Any, Any]"]
Reports = Callable[["VectorEnv"], Sequence[AgentReport]]


@dataclass(frozen=True)
class Workload:
    """How one thing is trained.

    `make_env(config)` returns a picklable factory of one environment, `reports(vector)` tells how
    far each agent is. `features` and `memory` are the policy's widths. `success` says in words
    when it counts as learnt. `memory_gb` and `cores` are what a learner with the default number of
    environments wants.
    """

    name: str
    make_env: Callable[[Config], EnvFactory]
    features: int
    memory: int
    reports: Reports
    success: str
    cores: int
    memory_gb: int

    def make_policy(self, space: DictSpace, actions: Discrete) -> ActorCritic:
        """The workload's network with fresh weights."""
        from Daddy.learning.policy import make_policy

        return make_policy(space, int(actions.n), self.features, self.memory)


def _game(config: Config) -> EnvFactory:
    from Daddy.pokemon.cartridge.build import cartridge_path
    from Daddy.pokemon.env import PokemonRedEnv

    training = config.training
    return partial(
        PokemonRedEnv,
        training.rom or cartridge_path(),
        allow_unknown_rom=training.allow_unknown_rom,
        episode_steps=training.episode_steps,
    )


def _cartpole(config: Config) -> EnvFactory:
    from Daddy.learning.cartpole import CartPole

    return partial(CartPole, config.training.episode_steps)


def _reports(vector: VectorEnv) -> list[AgentReport]:
    """One report per environment from its telemetry; what a workload does not measure is 0."""
    rows = vector.telemetry().tolist()
    named = [dict(zip(vector.telemetry_names, row, strict=True)) for row in rows]
    return [_agent_report(agent, defaultdict(float, facts)) for agent, facts in enumerate(named)]


def _agent_report(agent: int, facts: Mapping[str, float]) -> AgentReport:
    known = "map_id" in facts
    map_id = int(facts["map_id"])
    return AgentReport(
        agent=agent,
        badges=int(facts["badges"]),
        story_flags=int(facts["story_flags"]),
        episode_return=facts["episode_return"],
        episode=int(facts["episode"]),
        map_id=map_id,
        map_name=map_name(map_id, bool(facts["real_game"])) if known else "",
        level=int(facts["level"]),
        step=int(facts["step"]),
    )


WORKLOADS: dict[str, Workload] = {
    "pokemon_red": Workload(
        "pokemon_red",
        make_env=_game,
        features=128,
        memory=128,
        reports=_reports,
        success="mean return at least 1.5 times a random policy's, and rising over the run",
        cores=8,
        memory_gb=8,
    ),
    "cartpole": Workload(
        "cartpole",
        make_env=_cartpole,
        features=64,
        memory=0,
        reports=_reports,
        success="mean return of the last 20 episodes at least 195 of 500",
        cores=1,
        memory_gb=1,
    ),
}
"""Name in the configuration → row."""
