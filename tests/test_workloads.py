import pickle

import numpy as np
import pytest
from gymnasium.spaces import Dict, Discrete

from Daddy.core.settings import Config
from Daddy.core.shared_types import SCREEN_BYTES
from Daddy.learning.vector_serial import SerialVector
from Daddy.workloads import WORKLOADS


def config(name):
    return Config.model_validate({"training": {"workload": name, "episode_steps": 40}})


@pytest.fixture(params=sorted(WORKLOADS))
def workload(request):
    return WORKLOADS[request.param]


def test_every_workload_of_the_settings_has_a_row():
    from typing import get_args

    from Daddy.core.settings import TrainingSettings

    assert set(get_args(TrainingSettings.model_fields["workload"].annotation)) == set(WORKLOADS)
    assert all(name == row.name for name, row in WORKLOADS.items())


def test_its_environment_travels_to_another_process_and_fits_the_port(workload):
    factory = pickle.loads(pickle.dumps(workload.make_env(config(workload.name))))
    env = factory()
    assert isinstance(env.observation_space, Dict)
    assert isinstance(env.action_space, Discrete)
    observation, _ = env.reset(seed=1)
    assert env.observation_space.contains(observation)
    assert len(env.picture()) == SCREEN_BYTES
    assert len(env.telemetry()) == len(env.telemetry_names)
    env.close()


def test_a_saved_environment_goes_on_exactly(workload):
    vector = SerialVector(workload.make_env(config(workload.name)), 1)
    vector.reset([3])
    generator = np.random.default_rng(0)
    actions = generator.integers(0, vector.action_space.n, (120, 1))
    for action in actions[:30]:
        vector.step(action)
    saved = vector.save_states()
    first = [vector.step(action) for action in actions[30:]]
    vector.load_states(saved)
    second = [vector.step(action) for action in actions[30:]]
    assert any(step.episodes for step in first), "an episode should end in this test"
    for a, b in zip(first, second, strict=True):
        assert all(
            np.array_equal(a.observations[key], b.observations[key]) for key in a.observations
        )
        assert np.array_equal(a.rewards, b.rewards)
    vector.close()


def test_its_policy_fits_its_environment_and_its_reports_every_agent(workload):
    import torch

    vector = SerialVector(workload.make_env(config(workload.name)), 2)
    policy = workload.make_policy(
        config(workload.name).training, vector.observation_space, vector.action_space
    )
    seen = {key: torch.from_numpy(value) for key, value in vector.reset([1, 2]).items()}
    logits, values, _ = policy.step(seen, policy.initial_state(2), torch.ones(2, dtype=torch.bool))
    assert logits.shape == (2, vector.action_space.n)
    assert values.shape == (2,)
    for _ in range(5):
        vector.step(np.zeros(2, np.int64))
    reports = workload.reports(vector)
    assert [report.agent for report in reports] == [0, 1]
    assert all(report.step >= 1 for report in reports)
    assert all((report.x >= 0) == (workload.name == "pokemon_red") for report in reports)
    vector.close()


def test_the_settings_of_the_archive_reach_its_rules():
    meant = Config.model_validate({"archive": {"mode": "both"}})
    rules = WORKLOADS["pokemon_red"].make_env(meant).keywords["access"].rules
    assert rules.follow
    assert rules.starts
