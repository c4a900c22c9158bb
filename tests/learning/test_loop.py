from collections import deque
from dataclasses import replace

import numpy as np
import pytest
import torch

from Daddy.core.clock import SystemClock
from Daddy.core.errors import ConfigError, WeightsError
from Daddy.core.shared_types import SCREEN_BYTES, Adoption, AgentReport
from Daddy.learning import loop
from Daddy.learning.checkpoint import list_manifests, load_newest, save_checkpoint
from Daddy.learning.interfaces import NoExchange, NoFrames
from Daddy.learning.learner_reporting import METRICS
from Daddy.learning.learner_state import to_checkpoint
from Daddy.learning.loop import adopt_newer, adoption_is_due, collect_rollout, start_learner, train
from Daddy.workloads import WORKLOADS
from tests.learning.helpers import SCHEDULE, SETTINGS, FakeLease, StopAfter, cartpole_parts

SHORT = replace(SCHEDULE, total_steps=8 * 32 * 3)


def test_cartpole_is_learnt_within_forty_thousand_steps(tmp_path):
    parts = cartpole_parts(tmp_path, schedule=replace(SCHEDULE, total_steps=40_000))
    outcome = train(parts)
    returns = parts.events.returns()
    assert outcome.kind == "done"
    assert np.mean(returns[:20]) < 60.0
    assert np.mean(returns[-20:]) > 150.0


def test_total_steps_end_the_run_as_done_with_a_checkpoint(tmp_path):
    outcome = train(cartpole_parts(tmp_path, schedule=SHORT))
    assert (outcome.kind, outcome.step) == ("done", 768)
    assert load_newest(tmp_path).checkpoint.step == 768


def test_asked_to_leave_it_drains_with_a_checkpoint(tmp_path):
    outcome = train(cartpole_parts(tmp_path, stopper=StopAfter(7)))
    assert (outcome.kind, outcome.reason) == ("drained", "asked to")
    assert load_newest(tmp_path).checkpoint.step == outcome.step > 0


def test_asked_to_leave_at_once_it_still_leaves_a_checkpoint(tmp_path):
    outcome = train(cartpole_parts(tmp_path, stopper=StopAfter(0)))
    assert (outcome.kind, outcome.step) == ("drained", 0)
    assert load_newest(tmp_path).checkpoint.step == 0


def test_checkpoints_come_at_the_interval_and_their_steps_only_grow(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "KEPT_HOURS", 0)
    schedule = replace(SCHEDULE, total_steps=256 * 8, checkpoint_interval=512, max_keep=2)
    parts = cartpole_parts(tmp_path, schedule=schedule)
    train(parts)
    steps = [step for step, _ in parts.events.states("checkpointed")]
    assert steps == [512, 1024, 1536, 2048]
    assert len(list_manifests(tmp_path)) == 2


def test_checkpoints_are_not_more_frequent_than_the_disk_likes(tmp_path):
    schedule = replace(
        SCHEDULE, total_steps=256 * 8, checkpoint_interval=1, checkpoint_seconds=3600.0
    )
    parts = cartpole_parts(tmp_path, schedule=schedule)
    train(parts)
    assert len(parts.events.states("checkpointed")) == 1


def test_a_disk_that_refuses_a_checkpoint_does_not_stop_the_learner(tmp_path):
    folder = tmp_path / "checkpoints"
    folder.write_text("not a folder")
    schedule = replace(SCHEDULE, total_steps=256 * 4, checkpoint_interval=256)
    parts = cartpole_parts(folder, schedule=schedule)
    with pytest.raises(OSError, match="checkpoints"):
        train(parts)  # the last one, at the end, must not fail in silence
    errors = [data["text"] for event, _, data in parts.events.rows if event == "error"]
    assert len(errors) == 4
    assert "no checkpoint could be written" in errors[0]


class LosesItsLease(FakeLease):
    def beat(self, data):
        super().beat(data)
        self.ours = len(self.beats) < 2


def test_a_learner_that_lost_its_place_writes_nothing_any_more(tmp_path):
    exchange = Partner()
    schedule = replace(SCHEDULE, checkpoint_interval=512, sync_interval=512)
    parts = cartpole_parts(tmp_path, lease=LosesItsLease(), schedule=schedule, exchange=exchange)
    outcome = train(parts)
    assert outcome.kind == "fenced"
    assert [step for step, _ in parts.events.states("checkpointed")] == [512]
    assert exchange.published == [512]


class LosesItsLeaseAtTheEnd(FakeLease):
    def beat(self, data):
        super().beat(data)
        self.ours = data.get("stage") != "leaving"


def test_a_learner_that_finds_its_place_lost_when_it_leaves_hands_nothing_in(tmp_path):
    exchange = Partner()
    parts = cartpole_parts(
        tmp_path, lease=LosesItsLeaseAtTheEnd(), exchange=exchange, stopper=StopAfter(3)
    )
    assert train(parts).kind == "fenced"
    assert exchange.published == []
    assert parts.events.states("checkpointed") == []


@pytest.mark.parametrize("memory", [0, 16])
def test_a_resumed_learner_goes_on_bit_for_bit(tmp_path, memory):
    long = replace(SCHEDULE, total_steps=8 * 32 * 6)
    half = replace(SCHEDULE, total_steps=8 * 32 * 3)
    train(cartpole_parts(tmp_path / "straight", memory=memory, schedule=long))
    train(cartpole_parts(tmp_path / "halves", memory=memory, schedule=half))
    torch.manual_seed(999)  # a new process begins with other weights and generators
    parts = cartpole_parts(tmp_path / "halves", memory=memory, schedule=long)
    train(replace(parts, lease=FakeLease(term=2)))
    straight = load_newest(tmp_path / "straight").checkpoint
    halves = load_newest(tmp_path / "halves").checkpoint
    assert halves.step == straight.step == 1536
    different = [
        name
        for name, value in straight.tensors.items()
        if not torch.equal(value, halves.tensors[name])
    ]
    assert different == []
    assert halves.facts == straight.facts


@pytest.mark.parametrize("memory", [0, 16])
@pytest.mark.parametrize("looks", [3, 5, 8, 12])
def test_a_stop_in_the_middle_of_a_rollout_changes_nothing_that_comes_after(
    tmp_path, memory, looks
):
    """The learner is stopped and resumed again and again, at different places of a rollout."""
    settings = replace(SETTINGS, horizon=64)
    long = replace(SCHEDULE, total_steps=8 * 64 * 4)
    more = {"memory": memory, "schedule": long, "settings": settings}
    train(cartpole_parts(tmp_path / "straight", **more))
    told, outcome, term = [], None, 0
    while outcome is None or outcome.kind == "drained":
        term += 1
        assert term < 20
        torch.manual_seed(999 + term)
        again = {**more, "lease": FakeLease(term), "stopper": StopAfter(looks)}
        parts = cartpole_parts(tmp_path / "parts", **again)
        outcome = train(parts)
        told += parts.events.returns()
    assert term > 1
    straight = load_newest(tmp_path / "straight").checkpoint
    parts = load_newest(tmp_path / "parts").checkpoint
    assert [
        name
        for name in straight.tensors
        if not torch.equal(straight.tensors[name], parts.tensors[name])
    ] == []
    assert parts.facts == straight.facts
    assert len(told) == straight.facts["episodes"]


def test_a_rollout_begun_with_other_weights_is_not_learnt_from(tmp_path):
    settings = replace(SETTINGS, horizon=64)
    train(cartpole_parts(tmp_path, settings=settings, stopper=StopAfter(3)))
    assert load_newest(tmp_path).checkpoint.facts["rollout"]["filled"] > 0
    partner = Partner()
    partner.join_fleet = lambda initial, *_: Adoption(
        8, {name: value + 1.0 for name, value in initial().items()}, "rebased"
    )
    parts = cartpole_parts(tmp_path, settings=settings, exchange=partner, term=2)
    assert start_learner(parts).rollout.filled == 0
    other = replace(settings, horizon=32)
    parts = cartpole_parts(tmp_path, settings=other, term=2)
    assert start_learner(parts).rollout.filled == 0


def test_rewards_are_taken_as_they_are_where_that_is_set(tmp_path):
    settings = replace(SETTINGS, normalise_rewards=False)
    learner = start_learner(cartpole_parts(tmp_path, settings=settings))
    assert collect_rollout(learner)
    assert set(np.unique(learner.rollout.rewards)) == {1.0}


def test_the_rate_falls_as_the_schedule_says(tmp_path):
    settings = replace(SETTINGS, learning_rate_schedule="linear")
    parts = cartpole_parts(
        tmp_path, settings=settings, schedule=replace(SCHEDULE, total_steps=1024)
    )
    train(parts)
    rates = [data["learning_rate"] for event, _, data in parts.events.rows if event == "metric"]
    assert rates == pytest.approx([1e-3 * (1 - 0.9 * share) for share in (0.25, 0.5, 0.75, 1.0)])


def test_the_resumed_learner_says_where_it_goes_on_and_what_it_passed_over(tmp_path):
    schedule = replace(SCHEDULE, total_steps=1024, checkpoint_interval=512)
    train(cartpole_parts(tmp_path, schedule=schedule))
    list_manifests(tmp_path)[0].with_suffix(".safetensors").write_bytes(b"torn")
    parts = cartpole_parts(tmp_path, schedule=schedule, term=2)
    train(parts)
    ((step, data),) = parts.events.states("resumed")
    assert (step, data["checkpoint_step"]) == (512, 512)
    assert "truncated" in data["refused"][0]


def test_checkpoints_go_on_growing_even_if_the_terms_began_anew(tmp_path):
    train(cartpole_parts(tmp_path, schedule=SHORT, term=7))
    longer = replace(SHORT, total_steps=256 * 5)
    train(cartpole_parts(tmp_path, schedule=longer, term=1))
    assert load_newest(tmp_path).checkpoint.step == 256 * 5


def test_another_number_of_environments_keeps_what_was_learnt(tmp_path):
    train(cartpole_parts(tmp_path, schedule=SHORT))
    kept = load_newest(tmp_path).checkpoint
    parts = cartpole_parts(tmp_path, settings=replace(SETTINGS, num_envs=3), seed=5)
    learner = start_learner(replace(parts, lease=FakeLease(term=2)))
    assert learner.counters.env_steps == 768
    assert learner.collector.observations["state"].shape == (3, 4)
    for name, value in learner.weights().items():
        assert torch.equal(value, kept.tensors[f"policy.{name}"])


def test_a_checkpoint_of_another_network_is_refused_by_name(tmp_path):
    train(cartpole_parts(tmp_path, schedule=SHORT))
    sizes = r"another shape \(training\.lstm_size 0 there, 16 here; lstm\.weight_ih_l0: None, here"
    with pytest.raises(ConfigError, match=sizes):
        train(cartpole_parts(tmp_path, memory=16))
    with pytest.raises(ConfigError, match="'cartpole'"):
        train(replace(cartpole_parts(tmp_path), workload=WORKLOADS["pokemon_red"]))


def test_a_learner_whose_gradients_are_never_finite_gives_up_and_keeps_its_good_checkpoint(
    tmp_path,
):
    train(cartpole_parts(tmp_path, schedule=SHORT))
    poisoned = replace(SETTINGS, value_coefficient=float("nan"))
    parts = cartpole_parts(tmp_path, settings=poisoned, term=2)
    outcome = train(parts)
    assert outcome.kind == "diverged"
    assert load_newest(tmp_path).checkpoint.step == 768
    rows = [data for event, _, data in parts.events.rows if event == "metric"]
    assert rows[-1]["skipped_minibatches"] == 16


@pytest.mark.parametrize("memory", [0, 16])
def test_every_parameter_is_in_the_optimizer_and_in_the_checkpoint(tmp_path, memory):
    learner = start_learner(cartpole_parts(tmp_path, memory=memory))
    policy, optimizer = learner.parts.policy, learner.updater.optimizer
    assert optimizer.names == tuple(name for name, _ in policy.named_parameters())
    assert optimizer.mean.numel() == sum(parameter.numel() for parameter in policy.parameters())
    kept = to_checkpoint(learner).tensors
    assert {f"policy.{name}" for name in policy.state_dict()} <= kept.keys()


def test_metrics_have_the_names_of_the_table_and_a_row_per_iteration(tmp_path):
    parts = cartpole_parts(tmp_path, schedule=SHORT)
    train(parts)
    rows = [data for event, _, data in parts.events.rows if event == "metric"]
    assert len(rows) == 3
    assert set(rows[-1]) <= set(METRICS)
    assert {"steps_per_second", "entropy", "collect_seconds", "update_seconds"} <= set(rows[-1])
    assert len(parts.events.states("first_update")) == 1


def test_where_the_time_goes_is_told_and_adds_up(tmp_path):
    parts = cartpole_parts(tmp_path, schedule=SHORT)
    train(parts)
    *_, row = [data for event, _, data in parts.events.rows if event == "metric"]
    shares = [row[f"{what}_share"] for what in ("emulation", "inference", "learning")]
    assert all(share > 0.0 for share in shares)
    assert 0.3 < sum(shares) <= 1.0


def long_episode(facts):
    """Return milestones for CartPole: numbers of steps that the pole stood."""
    return [f"{steps} steps" for steps in (5, 30, 10_000) if facts.get("step", 0.0) >= steps]


def test_a_milestone_is_told_once_kept_and_not_told_again_after_a_restart(tmp_path):
    schedule = replace(SHORT, checkpoint_interval=256)
    parts = cartpole_parts(tmp_path, schedule=schedule, milestones_reached=long_episode)
    train(parts)
    told = [
        (step, data["milestone"]) for event, step, data in parts.events.rows if event == "progress"
    ]
    assert told[0] == (256, "30 steps")
    assert sorted(name for _, name in told) == ["30 steps", "5 steps"]
    kept = load_newest(tmp_path).checkpoint.facts["milestones"]
    assert kept == {name: step for step, name in told}
    longer = replace(schedule, total_steps=256 * 5)
    again = cartpole_parts(tmp_path, schedule=longer, milestones_reached=long_episode, term=2)
    train(again)
    assert [row for row in again.events.rows if row[0] == "progress"] == []
    rows = [data for event, _, data in again.events.rows if event == "metric"]
    assert rows[-1]["milestones"] == 2


def test_what_was_reached_with_help_stands_in_a_column_of_its_own(tmp_path):
    def helped(facts):
        return ["flute"] if facts.get("step", 0.0) >= 30 else []

    board, schedule = Curves(), replace(SHORT, checkpoint_interval=256)
    parts = cartpole_parts(
        tmp_path,
        schedule=schedule,
        milestones_reached=long_episode,
        assists_used=helped,
        board=board,
    )
    train(parts)
    told = {data["milestone"]: data["assists"]
            for event, _, data in parts.events.rows if event == "progress"}  # fmt: skip
    assert told["30 steps"] == ["flute"]
    rows = [data for event, _, data in parts.events.rows if event == "metric"]
    with_help = sum(bool(names) for names in told.values())
    assert (rows[-1]["milestones_assisted"], rows[-1]["milestones"]) == (
        with_help,
        len(told) - with_help,
    )
    assert "milestone_assisted/30 steps" in board.names
    assert "milestone/30 steps" not in board.names
    kept = load_newest(tmp_path).checkpoint.facts["milestones_helped"]
    assert kept == {name: names for name, names in told.items() if names}


def test_an_assist_that_does_not_work_is_told_once(tmp_path):
    parts = cartpole_parts(tmp_path, schedule=SHORT, assists_given_up=lambda _: ["flute"])
    train(parts)
    told = [data["text"] for event, _, data in parts.events.rows if event == "error"]
    assert told == ["the assist flute is disabled: it failed three times in a row"]


class Curves:
    """A TensorBoard writer that records the names of its curves."""

    def __init__(self):
        self.names = set()

    def scalars(self, step, values):
        self.names |= values.keys()

    def close(self):
        pass


def test_a_checkpoint_goes_to_no_learner_with_fewer_assists(tmp_path):
    train(cartpole_parts(tmp_path, schedule=SHORT, assists=("money", "flash")))
    fewer = cartpole_parts(tmp_path, schedule=SHORT, assists=("flash",), term=2)
    with pytest.raises(WeightsError, match="the assists money, which are not in use here"):
        train(fewer)
    more = ("money", "flash", "flute")
    again = cartpole_parts(tmp_path, schedule=SHORT, assists=more, term=3)
    assert train(again).kind == "done"


def test_every_finished_episode_is_told_once(tmp_path):
    parts = cartpole_parts(tmp_path, schedule=SHORT)
    train(parts)
    told = parts.events.returns()
    kept = load_newest(tmp_path).checkpoint.facts["episodes"]
    assert len(told) == kept > 10
    assert sum(told) <= 768


def test_the_beat_carries_what_status_shows(tmp_path):
    parts = cartpole_parts(tmp_path, schedule=SHORT)
    train(parts)
    *_, last, leaving = parts.lease.beats
    assert leaving == {"stage": "leaving"}
    assert last["env_steps"] == 768
    assert last["steps_per_second"] > 0
    assert last["boot_s"] == parts.events.states("first_update")[0][1]["boot_s"] > 0


def test_the_first_update_tells_what_the_start_was_spent_on(tmp_path):
    parts = cartpole_parts(tmp_path, schedule=SHORT)
    train(parts)
    ((_, told),) = parts.events.states("first_update")
    assert list(told["phases"]) == ["weights", "rollout", "update"]
    assert sum(told["phases"].values()) == pytest.approx(told["boot_s"], abs=0.01)


class Partner(NoExchange):
    """An exchange that returns the adoptions in `offers`, and records what is published."""

    def __init__(self):
        self.offers = deque()
        self.published = []
        self.resumed = "never asked"
        self.steps = self.beats = 0

    def join_fleet(self, initial, resumed, *_):
        self.resumed = resumed
        return Adoption(7, initial(), "newest")

    def adopt(self, weights, *_):
        return self.offers.popleft() if self.offers else None

    def publish(self, weights, env_steps, optimizer_steps):
        self.published.append(env_steps)
        return "published"

    def beat(self):
        self.beats += 1

    def fleet_steps(self):
        return self.steps

    def resume_state(self):
        return b"base v7"


def test_an_adopted_version_is_what_is_played_next(tmp_path):
    partner = Partner()
    parts = cartpole_parts(tmp_path, memory=16, exchange=partner)
    learner = start_learner(parts)
    assert collect_rollout(learner)
    new = {name: value + 1e-4 for name, value in learner.weights().items()}
    partner.offers.append(Adoption(8, new, "newer"))
    learner.counters.iterations = 1
    learner.last_ran["adopt"] = float("-inf")
    old_state = learner.collector.lstm_state.clone()
    adopt_newer(learner)
    assert learner.version == 8
    played = {name: value for name, value in learner.weights().items() if "critic" not in name}
    assert len(played) == len(new) - 2  # the critic may be fitted to the returns it knows
    assert all(torch.equal(value, new[name]) for name, value in played.items())
    assert not torch.equal(learner.collector.lstm_state, old_state)


def test_a_version_adopted_before_anything_was_played_leaves_the_memory_as_it_was(tmp_path):
    """A new process has no sequence to recompute from, so the restored LSTM state stays."""
    parts = cartpole_parts(tmp_path, memory=16, schedule=SHORT)
    train(parts)
    partner = Partner()
    again = cartpole_parts(tmp_path, memory=16, exchange=partner, term=2)
    learner = start_learner(again)
    restored = learner.collector.lstm_state.clone()
    assert restored.any()
    partner.offers.append(Adoption(8, learner.weights(), "newer"))
    learner.last_ran["adopt"] = float("-inf")
    adopt_newer(learner)
    assert learner.version == 8
    assert torch.equal(learner.collector.lstm_state, restored)


def test_a_checkpoint_from_before_the_gauges_goes_on(tmp_path):
    train(cartpole_parts(tmp_path / "new", schedule=SHORT))
    kept = load_newest(tmp_path / "new").checkpoint
    tensors = {k: v for k, v in kept.tensors.items() if not k.startswith(("gauges.", "rollout."))}
    facts = {k: v for k, v in kept.facts.items() if k not in ("milestones", "rollout")}
    save_checkpoint(tmp_path / "old", replace(kept, tensors=tensors, facts=facts), 3)
    longer = replace(SHORT, total_steps=256 * 5)
    for name in ("new", "old"):
        train(cartpole_parts(tmp_path / name, schedule=longer, term=2))
    new, old = (load_newest(tmp_path / name).checkpoint for name in ("new", "old"))
    assert [
        name for name in new.tensors if not torch.equal(new.tensors[name], old.tensors[name])
    ] == []


def test_progress_is_published_at_the_interval_and_at_the_end(tmp_path):
    partner = Partner()
    schedule = replace(SCHEDULE, total_steps=256 * 5, sync_interval=512)
    train(cartpole_parts(tmp_path, exchange=partner, schedule=schedule))
    assert partner.published == [512, 1024, 1280]


class Slow(Partner):
    """An exchange in which every contribution takes `seconds`."""

    def __init__(self, clock, seconds):
        super().__init__()
        self.clock, self.seconds = clock, seconds

    def publish(self, weights, env_steps, optimizer_steps):
        self.clock.ahead += self.seconds
        return super().publish(weights, env_steps, optimizer_steps)


class Ahead(SystemClock):
    """A clock that the test sets, independent of the machine's speed."""

    def __init__(self):
        self.ahead = 0.0

    def monotonic(self):
        return self.ahead


@pytest.mark.parametrize(("seconds", "published"), [(0.0, [256, 512, 768, 1024, 1280, 1280]),
                                                    (3.0, [256, 1280])])  # fmt: skip
def test_a_slow_disk_is_written_to_as_rarely_as_its_share_of_time_asks(
    tmp_path, seconds, published
):
    clock = Ahead()
    partner = Slow(clock, seconds)
    schedule = replace(SCHEDULE, total_steps=256 * 5, sync_interval=256, longest_pause=600.0)
    train(cartpole_parts(tmp_path, exchange=partner, schedule=schedule, clock=clock))
    assert partner.published == published  # the last one on leaving


@pytest.mark.parametrize(
    ("since_look", "since_offer", "cost", "due"),
    [
        (0.5, 0.7, 0.0, False),  # nothing offered since: once a second is enough
        (1.0, 1.2, 0.0, True),
        (0.5, 0.1, 0.0, True),  # an offer of ours may be a version already
        (9.0, 0.1, 0.25, True),  # half of a hundredth of 100 s
        (9.0, 0.1, 0.26, False),
        (599.0, 0.1, 60.0, False),
        (600.0, 0.1, 60.0, True),  # after a disk that hung it is tried every ten minutes
    ],
)
def test_a_look_comes_once_a_second_or_after_an_offer_and_when_paid_for(
    tmp_path, since_look, since_offer, cost, due
):
    clock = Ahead()
    schedule = replace(SCHEDULE, longest_pause=600.0)
    learner = start_learner(
        cartpole_parts(tmp_path, exchange=Partner(), schedule=schedule, clock=clock)
    )
    clock.ahead = 100.0
    learner.costs["adopt"].add_run(cost)
    learner.last_ran |= {"adopt": 100.0 - since_look, "publish": 100.0 - since_offer}
    assert adoption_is_due(learner) is due


def test_who_cannot_afford_a_look_beats_twice_a_minute(tmp_path):
    clock, partner = Ahead(), Partner()
    schedule = replace(SCHEDULE, longest_pause=600.0)
    learner = start_learner(
        cartpole_parts(tmp_path, exchange=partner, schedule=schedule, clock=clock)
    )
    learner.costs["adopt"].add_run(1.0)
    for second in range(60, 180):
        clock.ahead = float(second)
        adopt_newer(learner)
    assert partner.beats == 4


def test_the_exchange_gets_its_bookkeeping_back_after_a_restart(tmp_path):
    first, second = Partner(), Partner()
    train(cartpole_parts(tmp_path, exchange=first, schedule=SHORT))
    train(cartpole_parts(tmp_path, exchange=second, schedule=SHORT, term=2))
    assert first.resumed is None
    assert second.resumed == b"base v7"


def test_the_fleets_steps_end_the_run_not_only_our_own(tmp_path):
    partner = Partner()
    partner.steps = 10**9
    outcome = train(cartpole_parts(tmp_path, exchange=partner, schedule=SHORT))
    assert (outcome.kind, outcome.step) == ("done", 0)


class Watcher(NoFrames):
    def __init__(self):
        self.reports, self.pictures, self.request_counter = [], [], bytearray(b"\1")

    def poll_requests(self):
        self.request_counter[0] ^= 2  # and more is asked for at once
        return True, frozenset({1})

    def send_reports(self, reports):
        self.reports.append(list(reports))

    def send_picture(self, agent, picture):
        self.pictures.append((agent, picture))


def test_a_watched_agents_pictures_are_offered_and_nobody_elses(tmp_path):
    watcher = Watcher()
    report = AgentReport(0, 0, 0, 0.0, 0, 0, "", 0, 0)
    train(cartpole_parts(tmp_path, frames=watcher, schedule=SHORT, reports=lambda vector: [report]))
    assert watcher.reports[0] == [report]
    assert {agent for agent, _ in watcher.pictures} == {1}
    assert {len(picture) for _, picture in watcher.pictures} == {SCREEN_BYTES}
    assert len({picture for _, picture in watcher.pictures}) > 10
