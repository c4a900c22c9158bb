"""Defines the table of workloads: one row per environment that can be trained.

The row's functions load the heavy libraries, so that importing this module for the names is fast.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from Daddy.core.agreed_settings import GAME, OBSERVATION
from Daddy.core.assist_compatibility import from_bits
from Daddy.core.job_environment import read_job
from Daddy.core.load_config import run_paths
from Daddy.core.settings import Config, TrainingSettings
from Daddy.core.shared_types import AgentReport
from Daddy.learning.interfaces import EnvWorkload
from Daddy.pokemon.find_rom import cartridge_path, check_start_state, load_configured_rom
from Daddy.pokemon.map_names import map_name

if TYPE_CHECKING:
    import gymnasium
    from gymnasium.spaces import Dict as DictSpace
    from gymnasium.spaces import Discrete

    from Daddy.learning.policy import ActorCritic
    from Daddy.learning.vector_rows import VectorEnv
    from Daddy.pokemon.archive.archive_decisions import ArchiveRules
    from Daddy.pokemon.env import PokemonRedEnv

EnvFactory = Callable[[], "gymnasium.Env[Any, Any]"]


def _game_policy(training: TrainingSettings, space: DictSpace, actions: Discrete) -> ActorCritic:
    from Daddy.learning.policy import make_policy

    return make_policy(space, int(actions.n), training.encoder_size, training.lstm_size)


def _small_policy(_: TrainingSettings, space: DictSpace, actions: Discrete) -> ActorCritic:
    from Daddy.learning.policy import make_policy

    return make_policy(space, int(actions.n), features=64, memory=0)


def _game(config: Config) -> EnvFactory:
    training = config.training
    return partial(
        _game_class(config),
        training.rom or cartridge_path(),
        **game_options(training),
        episode_steps=training.episode_steps,
        weights=config.reward,
    )


def game_options(training: TrainingSettings) -> dict[str, Any]:
    """Return the options of `PokemonRedEnv` (JSON) for the game, its start state and assists."""
    return {
        "allow_unknown_rom": training.allow_unknown_rom,
        "init_state": training.start,
        "assists": list(training.assists),
    }


def _facts_of_game(config: Config) -> Mapping[str, str]:
    """Return the game's SHA-1 and the observations' version as JSON texts. Raises RomError."""
    from Daddy.pokemon.observation import MEANING

    return {
        GAME: json.dumps(load_configured_rom(config.training).sha1),
        OBSERVATION: json.dumps(MEANING),
    }


def _game_class(config: Config) -> Callable[..., PokemonRedEnv]:
    """Return PokemonRedEnv if the archive is off, or ArchivedEnv with the run's archive."""
    from Daddy.pokemon.env import PokemonRedEnv

    if config.archive.mode == "off":
        return PokemonRedEnv
    from Daddy.pokemon.archive.archive_env import ArchiveAccess, ArchivedEnv

    job = read_job(os.environ)
    access = ArchiveAccess(run_paths(config).archive, archive_rules(config), job.slot, job.release)
    return partial(ArchivedEnv, access=access)


def archive_rules(config: Config) -> ArchiveRules:
    """Return the ArchiveRules of the configured archive mode (swarm, starts or both)."""
    from Daddy.pokemon.archive.archive_decisions import ArchiveRules

    mode = config.archive.mode
    return ArchiveRules(follow=mode in ("swarm", "both"), starts=mode in ("starts", "both"))


def _cartpole(config: Config) -> EnvFactory:
    from Daddy.learning.cartpole import CartPole

    return partial(CartPole, config.training.episode_steps)


def _story(facts: Mapping[str, Any]) -> Sequence[str]:
    from Daddy.pokemon.story_milestones import milestones_from_columns

    return milestones_from_columns(facts)


def _assists(column: str) -> Callable[[Mapping[str, Any]], Sequence[str]]:
    return lambda facts: from_bits(int(facts.get(column, 0)))


def _reports(vector: VectorEnv) -> list[AgentReport]:
    """Return an AgentReport of each environment's telemetry; missing values are 0."""
    rows = vector.telemetry().tolist()
    facts_of = [dict(zip(vector.telemetry_names, row, strict=True)) for row in rows]
    return [_agent_report(agent, defaultdict(float, facts)) for agent, facts in enumerate(facts_of)]


def _agent_report(agent: int, facts: Mapping[str, float]) -> AgentReport:
    has_map = "map_id" in facts
    map_id = int(facts["map_id"])
    return AgentReport(
        agent=agent,
        badges=int(facts["badges"]),
        story_flags=int(facts["story_flags"]),
        episode_return=facts["episode_return"],
        episode=int(facts["episode"]),
        map_id=map_id,
        map_name=map_name(map_id, bool(facts["real_game"])) if has_map else "",
        level=int(facts["level"]),
        step=int(facts["step"]),
        x=int(facts.get("x", -1)),
        y=int(facts.get("y", -1)),
    )


WORKLOADS: dict[str, EnvWorkload] = {
    "pokemon_red": EnvWorkload(
        name="pokemon_red",
        check=lambda config: check_start_state(config.training),
        facts=_facts_of_game,
        make_env=_game,
        make_policy=_game_policy,
        reports=_reports,
        milestones_reached=_story,
        assists_used=_assists("assists_used"),
        assists_given_up=_assists("assists_off"),
    ),
    "cartpole": EnvWorkload(
        name="cartpole",
        make_env=_cartpole,
        make_policy=_small_policy,
        reports=_reports,
    ),
}
"""Name in the configuration → row."""
