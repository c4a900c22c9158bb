from dataclasses import replace
from functools import partial

import numpy as np
import torch
from gymnasium.spaces import Box
from hypothesis import given
from hypothesis import strategies as st

from Daddy.learning.cartpole import CartPole
from Daddy.learning.collector import RolloutProgress, sample
from Daddy.learning.learner_state import new_learner, reset_environments
from Daddy.learning.rollout_buffer import ObservationStore, pack_pixels, unpack_pixels
from Daddy.learning.vector_serial import SerialVector
from tests.learning.helpers import SETTINGS, cartpole_parts

CPU = torch.device("cpu")


def played(tmp_path, memory=8, **settings):
    parts = cartpole_parts(
        tmp_path, memory=memory, settings=replace(SETTINGS, num_envs=3, **settings)
    )
    learner = new_learner(parts)
    reset_environments(learner)
    assert learner.collector.collect(learner.rollout, lambda: None)
    return learner


def test_every_step_is_in_exactly_one_minibatch(tmp_path):
    learner = played(tmp_path, horizon=32, batch_size=32)
    rollout = learner.rollout
    rollout.returns = np.arange(rollout.returns.size, dtype=np.float32).reshape(32, 3)
    batches = list(rollout.minibatches(torch.Generator().manual_seed(0), CPU))
    seen = torch.cat([batch.returns.flatten() for batch in batches])
    assert sorted(seen.tolist()) == list(range(96))
    assert len(batches) == 3


def test_a_minibatch_repeats_what_was_played(tmp_path):
    """With unchanged weights, the policy gives the stored log-probabilities and values again."""
    learner = played(tmp_path, horizon=64)
    policy, rollout = learner.parts.policy, learner.rollout
    assert rollout.starts[1:].any(), "an episode should have ended for this test to mean anything"
    for batch in rollout.minibatches(torch.Generator().manual_seed(0), CPU):
        logits, values, _ = policy(batch.observations, batch.lstm_state, batch.starts)
        chosen = torch.log_softmax(logits, -1).gather(-1, batch.actions.unsqueeze(-1)).squeeze(-1)
        assert torch.allclose(chosen, batch.log_probs, atol=1e-5)
    whole = rollout.last_sequence(CPU)
    _, values, state = policy(whole.observations, whole.lstm_state, whole.starts)
    assert np.allclose(values.detach().numpy(), rollout.values[-16:], atol=1e-5)
    assert torch.allclose(state, learner.collector.lstm_state, atol=1e-5)


def test_a_spread_is_of_the_whole_rollout_and_of_as_many_steps_as_asked_for(tmp_path):
    rollout = played(tmp_path, horizon=64).rollout
    everything = np.sort(rollout.returns.flatten())
    assert np.array_equal(
        np.sort(rollout.spread_sample(1 << 20, CPU).returns.flatten()), everything
    )
    some = rollout.spread_sample(everything.size // 2, CPU).returns
    assert some.numel() == everything.size // 2
    assert len(set(some.flatten().tolist()) - set(everything.tolist())) == 0
    assert rollout.spread_sample(1, CPU).returns.shape[1] == 2


def test_starts_follow_ends(tmp_path):
    rollout = played(tmp_path, horizon=64).rollout
    assert rollout.starts[0].all()
    assert np.array_equal(rollout.starts[1:], rollout.dones[:-1])
    assert len(rollout.episodes) == rollout.dones.sum()


def test_a_rollout_that_is_interrupted_says_so(tmp_path):
    learner = played(tmp_path)
    looks = iter([None, "asked to"])
    learner = played(tmp_path, horizon=64)
    assert learner.collector.collect(learner.rollout, lambda: next(looks, "asked to")) is False


def test_a_cut_off_episode_keeps_the_critics_word_and_a_lost_one_does_not(tmp_path):
    parts = cartpole_parts(tmp_path, settings=replace(SETTINGS, num_envs=2))
    learner = new_learner(parts)
    reset_environments(learner)
    learner.rollout.values[0] = [3.0, 3.0]
    transition = parts.vector.step(np.array([0, 1]))
    ends = replace(
        transition,
        rewards=np.zeros(2, np.float32),
        terminated=np.array([True, False]),
        truncated=np.array([False, True]),
    )
    learner.collector.store_transition(
        learner.rollout, RolloutProgress([0], end=32, completed_steps=0), 0, ends
    )
    assert np.allclose(learner.rollout.rewards[0], [0.0, 0.99 * 3.0])
    assert learner.rollout.dones[0].all()


def test_actions_are_drawn_with_the_policys_probabilities():
    logits = torch.log(torch.tensor([[0.1, 0.2, 0.7]])).expand(20_000, 3)
    actions, log_probs = sample(
        logits, torch.rand(20_000, generator=torch.Generator().manual_seed(1))
    )
    shares = np.bincount(actions, minlength=3) / 20_000
    assert np.allclose(shares, [0.1, 0.2, 0.7], atol=0.015)
    assert np.allclose(np.exp(log_probs), np.array([0.1, 0.2, 0.7])[actions], atol=1e-5)


def test_minibatches_are_mixed_anew_in_every_pass_and_sequences_stay_whole(tmp_path):
    rollout = played(tmp_path, horizon=64, batch_size=64).rollout
    rollout.returns = np.arange(rollout.returns.size, dtype=np.float32).reshape(64, 3)
    generator = torch.Generator().manual_seed(0)
    passes = [[b.returns for b in rollout.minibatches(generator, CPU)] for _ in range(2)]
    assert [b[0].tolist() for b in passes[0]] != [b[0].tolist() for b in passes[1]]
    for targets in passes[0]:
        steps, envs = targets // 3, targets % 3
        assert torch.all(steps[1:] - steps[:-1] == 1)
        assert torch.all(envs == envs[:1])
        assert torch.all(steps[0] % 16 == 0)


def test_no_small_rest_of_a_rollout_weighs_as_much_as_a_full_minibatch(tmp_path):
    rollout = played(tmp_path, horizon=48, batch_size=64).rollout  # 9 sequences, 4 at most
    widths = [b.starts.shape[1] for b in rollout.minibatches(torch.Generator(), CPU)]
    assert widths == [3, 3, 3]


def test_every_sequence_begins_with_the_memory_it_was_played_with(tmp_path):
    learner = played(tmp_path, horizon=64)
    rollout, policy = learner.rollout, learner.parts.policy
    state, batch = rollout.lstm_states[0].clone(), rollout.last_sequence(CPU)
    assert not state.any()
    for part in range(3):
        part_of = rollout._gather(np.arange(part * 3, part * 3 + 3), CPU)
        with torch.no_grad():
            *_, state = policy(part_of.observations, state, part_of.starts)
        assert torch.allclose(state, rollout.lstm_states[part + 1], atol=1e-5)
        assert state.any()
    assert torch.equal(batch.lstm_state, rollout.lstm_states[3])


def test_advantages_join_over_a_rollouts_edge_through_the_critics_word(tmp_path):
    """The last values come from the observation and the LSTM state after the last step."""
    learner = played(tmp_path, horizon=32)
    with torch.no_grad():
        seen = {
            key: torch.from_numpy(value) for key, value in learner.collector.observations.items()
        }
        starts = torch.from_numpy(learner.collector.starts)
        _, values, _ = learner.parts.policy.step(seen, learner.collector.lstm_state, starts)
    assert np.allclose(learner.rollout.last_values, values.numpy(), atol=1e-6)
    assert learner.collector.collect(learner.rollout, lambda: None)
    assert np.allclose(learner.rollout.values[0], values.numpy(), atol=1e-6)


def test_after_a_cut_the_memory_begins_anew_just_as_after_a_fall(tmp_path):
    vector = SerialVector(partial(CartPole, 5), 3)  # nothing falls within five steps
    settings = replace(SETTINGS, num_envs=3, horizon=32)
    learner = new_learner(cartpole_parts(tmp_path, memory=8, settings=settings, vector=vector))
    reset_environments(learner)
    assert learner.collector.collect(learner.rollout, lambda: None)
    rollout = learner.rollout
    assert rollout.starts[::5].all()
    assert rollout.starts.sum() == rollout.starts[::5].size
    last = rollout.last_sequence(CPU)
    _, values, _ = learner.parts.policy(last.observations, last.lstm_state, last.starts)
    assert np.allclose(values.detach().numpy(), rollout.values[-16:], atol=1e-5)


SHADES = np.array([0, 85, 153, 255], np.uint8)
SCREEN = Box(0, 255, (72, 80), np.uint8)


def screens(seed, count=2):
    return SHADES[np.random.default_rng(seed).integers(0, 4, (count, 72, 80))]


@given(
    st.lists(st.sampled_from(list(range(4))), min_size=4, max_size=64).map(
        lambda x: x[: len(x) // 4 * 4]
    )
)
def test_packing_loses_nothing(numbers):
    pixels = SHADES[np.array(numbers, int)]
    assert np.array_equal(unpack_pixels(torch.from_numpy(pack_pixels(pixels))).numpy(), pixels)


def test_a_screen_takes_a_quarter_of_its_bytes():
    store = ObservationStore((3, 2), SCREEN)
    assert store._array.nbytes == 3 * 2 * 72 * 80 // 4


def test_what_is_taken_is_what_was_put():
    store = ObservationStore((3, 2), SCREEN)
    for t in range(3):
        store.store(t, screens(t))
    steps, envs = np.array([[0, 1], [1, 2]]), np.array([1, 0])
    got = store.gather(steps, envs, CPU).numpy()
    assert got.shape == (2, 2, 72, 80)
    assert np.array_equal(got[0, 0], screens(0)[1])
    assert np.array_equal(got[1, 1], screens(2)[0])


def test_a_picture_with_other_greys_is_kept_exactly_and_so_are_those_before_it():
    store = ObservationStore((2, 2), SCREEN)
    store.store(0, screens(0))
    odd = np.random.default_rng(9).integers(0, 256, (2, 72, 80)).astype(np.uint8)
    store.store(1, odd)
    got = store.gather(np.array([[0, 0], [1, 1]]), np.array([0, 1]), CPU).numpy()
    assert np.array_equal(got[0], screens(0))
    assert np.array_equal(got[1], odd)


def test_scalars_are_stored_in_their_own_type():
    store = ObservationStore((1, 2), Box(-1.0, 1.0, (3,), np.float32))
    values = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], np.float32)
    store.store(0, values)
    got = store.gather(np.array([[0, 0]]), np.array([0, 1]), CPU)
    assert got.dtype == torch.float32
    assert np.array_equal(got[0].numpy(), values)
