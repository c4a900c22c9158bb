"""Every setting of a run: its name, type, default and meaning.

No other module holds a default. The names of the guide are public interface;
``docs/configuration.md`` lists all of them.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from Daddy.core.assist_rules import parse_assists
from Daddy.core.humanize import parse_duration


class SettingsSection(BaseModel):
    """Base of all sections: unknown keys are errors, values are frozen and checked."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class HyperparameterSettings(SettingsSection):
    """The hyperparameters of the learner."""

    num_envs: int = Field(8, ge=1, le=4096, description="environments per job")
    profile: Literal["auto", "cpu", "gpu"] = Field(
        "auto",
        description="gpu: the recipe below, over whatever earlier layers say; auto and cpu fill "
        "horizon and learning rate where open, auto by the device",
    )
    batch_size: int = Field(64, ge=1, description="steps in one PPO minibatch")
    horizon: int | None = Field(None, ge=1, description="steps per environment and rollout")
    rollout: int | None = Field(
        None, ge=1, description="about so many steps per rollout, where the horizon is open"
    )
    bptt: int = Field(16, ge=1, description="steps that gradients flow through the memory")
    update_epochs: int = Field(4, ge=1, description="passes over a rollout")
    learning_rate: float | None = Field(None, gt=0, description="Adam step size")
    learning_rate_schedule: Literal["constant", "linear"] = Field(
        "constant", description="linear: down to a tenth at total_steps"
    )
    clip: float = Field(0.2, gt=0, description="PPO ratio clip")
    value_clip: float = Field(0.0, ge=0, description="clip of a value's change; 0: none")
    entropy: float = Field(0.01, ge=0, description="entropy bonus")
    value_coefficient: float = Field(0.5, ge=0, description="weight of the value loss")
    gamma: float = Field(0.99, gt=0, le=1, description="discount")
    gae_lambda: float = Field(0.95, ge=0, le=1, description="advantage trace decay")
    max_grad_norm: float = Field(0.5, gt=0, description="gradient norm clip")
    normalise_rewards: bool = Field(
        True, description="divide rewards by the running deviation of returns"
    )


class GameSettings(SettingsSection):
    """The environment: its game, start and length."""

    episode_steps: int = Field(2048, ge=1, description="actions after which an episode is cut")
    rom: str | None = Field(None, description="path of the ROM, absolute or relative to this file")
    allow_unknown_rom: bool = Field(False, description="run a ROM whose SHA-1 is not known")
    cartridge: bool = Field(False, description="a cluster run without a ROM plays the cartridge")
    start: str = Field(
        "",
        description="start state: `bedroom`, `pokedex`, one recorded, or a PyBoy state's path; "
        "empty: `pokedex` of the real game, the beginning of any other",
    )
    assists: list[str] = Field(
        default_factory=list,
        description="scripted helps: `none`, `peers` or a list of names (docs/assists.md)",
    )

    @field_validator("assists", mode="before")
    @classmethod
    def _named(cls, said: Any) -> list[str]:
        """Names in one order, so that the same assists give the same configuration."""
        return parse_assists(said)


class StreamingSettings(SettingsSection):
    """The live stream of a job's agents."""

    stream: bool = Field(True, description="offer frames of the featured agents")
    stream_direct: bool = Field(
        True, description="jobs listen for relays while watched: authenticated, not encrypted"
    )
    stream_port: int = Field(9999, ge=1, le=65535, description="port of the SSH tunnel")
    stream_top_k: int = Field(2, ge=1, le=16, description="agents featured at once")


class TrainingSettings(StreamingSettings, GameSettings, HyperparameterSettings):
    """The work of a learner. Each reader takes the part that it reads."""

    workload: Literal["pokemon_red", "cartpole"] = Field("pokemon_red", description="what to train")
    total_steps: int = Field(5_000_000, ge=0, description="fleet steps that end the run; 0: never")
    device: Literal["auto", "cpu", "cuda", "mps"] = Field("cuda", description="where networks run")
    vector_backend: Literal["auto", "pufferlib", "threads", "serial"] = Field(
        "auto", description="how environments run side by side"
    )
    seed: int = Field(
        7, ge=0, description="seed of the run; every job and environment derives its own"
    )
    checkpoint_interval: int = Field(10_000, ge=1, description="own steps between checkpoints")
    max_runtime_seconds: int = Field(13_500, ge=1, description="a job leaves by itself after this")

    @model_validator(mode="before")
    @classmethod
    def _recipe(cls, given: Any) -> Any:
        """A profile's values stand for what is not said beside its name."""
        return (
            {**profile_values(given.get("profile")), **given} if isinstance(given, dict) else given
        )

    @model_validator(mode="after")
    def _assists_fit(self) -> TrainingSettings:
        if self.assists and self.workload != "pokemon_red":
            raise ValueError(f"{self.workload} has no assists: leave training.assists at none")
        return self


PROFILES: dict[str, dict[str, Any]] = {
    "gpu": {
        "num_envs": 96,
        "horizon": None,
        "rollout": 16_384,
        "batch_size": 2048,
        "update_epochs": 3,
        "bptt": 16,
        "learning_rate": 2e-4,
        "clip": 0.1,
        "value_clip": 0.1,
        "value_coefficient": 0.53,
        "entropy": 0.01,
        "gamma": 0.998,
        "gae_lambda": 0.95,
        "max_grad_norm": 0.5,
        "normalise_rewards": False,
    }
}
"""Values of ``training`` that a profile's name stands for.

``gpu``: what the public Pokémon learner that finished the game was tuned to, fitted to a job of one
GPU and 8 CPUs. Four such learners collect its 65,536 steps together.
"""


def profile_values(profile: object) -> dict[str, Any]:
    """What a profile's name stands for; nothing for any other name."""
    return PROFILES.get(profile, {}) if isinstance(profile, str) else {}


_SHORT_JOB_S = 600


class SlurmSettings(SettingsSection):
    """What the site allows and what a job asks for."""

    partition: str = Field("gpu-linuxlab", description="partition jobs are submitted to")
    account: str | None = Field(None, description="account that is charged")
    qos: str | None = Field(None, description="quality of service")
    time_limit: str = Field("4:00:00", description="wall time of a job, H:MM:SS")
    cpus_per_job: int = Field(8, ge=1, description="CPUs of a job")
    gpus_per_job: int = Field(1, ge=0, description="GPUs of a job")
    memory: str | None = Field(None, description="memory of a job as Slurm writes it, such as 16G")
    mem_per_gpu: str | None = Field(None, description="memory per GPU as Slurm writes it")
    exclude: list[str] = Field(default_factory=list, description="nodes never to use")
    max_running: int = Field(4, ge=1, le=64, description="slots: jobs that run at once")
    setup: list[str] = Field(
        default_factory=list, description="shell lines at the start of the job script"
    )
    export: list[str] = Field(
        default_factory=list, description="names of further variables that jobs take over"
    )

    def limit_interval(self, seconds: float) -> float:
        """``seconds``; at most a twentieth of the wall time of jobs below ten minutes, as a demo's.

        Times between checkpoints and between contributions: such jobs keep and share work too.
        On a slow disk, trying to share as often would take longer jobs a third of their time.
        """
        limit = parse_duration(self.time_limit)
        return min(seconds, limit / 20) if 0 < limit < _SHORT_JOB_S else seconds


class CollaborationSettings(SettingsSection):
    """How weights are shared."""

    enabled: bool = Field(True, description="jobs share weights")
    shared_dir: str = Field("", description="shared folder; empty: shared_weights in the run")
    join: str = Field("", description="another account's shared_weights: take part in that run")
    rule: Literal["delta", "polyak"] = Field(
        "delta", description="how contributions move the weights"
    )
    sync_interval_steps: int = Field(5000, ge=1, description="own steps between contributions")
    allowed_user_ids: list[str] = Field(
        default_factory=list, description="laptops that may contribute; empty: all in the inbox"
    )


KEPT_VERSIONS = 8
"""Versions whose weights stay beside the newest: a learner's base may lag four."""
HISTORY_VERSIONS = 54
"""Versions beyond those to go back to: one an hour for a day and one a day for 30 days."""
HISTORY_MB = 256
"""Megabytes of their states: three times what the default policy needs. A larger policy has fewer
days to go back to instead of filling the disk."""
KEPT_CHECKPOINTS = 6
"""Newest checkpoints kept per slot: a damaged one, or a step back by hand, finds older ones."""
KEPT_HOURS = 6
"""Hours for which one checkpoint an hour stays beyond the newest: longer than a job runs."""


class ArchiveSettings(SettingsSection):
    """Which moments of the game are kept as save states, and who goes back to them."""

    mode: Literal["off", "swarm", "starts", "both"] = Field(
        "off",
        description="swarm: when the run first holds more milestones, every environment goes on "
        "from there, and most episodes begin near there; starts: episodes begin from states",
    )


class RewardSettings(SettingsSection):
    """The reward of one unit of each part.

    Where the best public learner publishes a tuned value, it is the default here.
    """

    cell: float = Field(
        0.029, description="a cell that was not stepped on since the last forgetting"
    )
    open_goal: float = Field(
        9.5, ge=0, description="factor of a cell on a map where a required milestone is still open"
    )
    way: float = Field(0.3, description="a way from one map to another, taken for the first time")
    sign: float = Field(0.2, description="a sign read for the first time")
    event: float = Field(0.73, description="an event flag, set for the first time")
    required: float = Field(7.1, description="a required milestone, beside its event flag")
    item: float = Field(3.4, description="an item that the story needs, held for the first time")
    hm: float = Field(8.1, description="a machine of a field move, held for the first time")
    badge: float = Field(1.9, description="a badge")
    level: float = Field(1.1, description="a level of the party's sum; beyond 15 a quarter of it")
    move: float = Field(4.1, description="a move that nobody in the party knew before")
    seen: float = Field(2.2, description="a species seen")
    caught: float = Field(3.1, description="a species caught")
    field: float = Field(4.8, description="a field move that did its work, once per map and move")
    heal: float = Field(
        0.75, description="the party's HP restored wholly; of each map the best counts, once"
    )
    blackout: float = Field(-0.1, description="the party's last HP lost")
    memory_steps: int = Field(
        20_000,
        ge=0,
        description="steps after which cells, ways, signs and healings are forgotten and count "
        "again, at other times in each environment; 0: never",
    )


class ControllerSettings(SettingsSection):
    """How the controller looks and queues."""

    executor: Literal["auto", "slurm", "local"] = Field("auto", description="where jobs run")
    poll_seconds: float = Field(30.0, gt=0, description="time between looks at the queue")
    budget_gpu_hours: float = Field(
        0.0, ge=0, description="GPU-hours of jobs after which the run pauses; 0: no limit"
    )
    failover: bool = Field(
        True, description="running jobs make the controller's passes while it is gone"
    )
    relay: bool = Field(True, description="run the stream's relay beside the controller")
    notify: str = Field(
        "", description="command that gets a message on its standard input; empty: none"
    )


class MirrorSettings(SettingsSection):
    """The copy in the home directory that a purged run is restored from."""

    minutes: float = Field(10.0, ge=0, description="time between two looks; 0: no copy")
    folder: str = Field(
        "", description="folder of the copies of all runs; empty: ~/.local/share/daddy/mirrors"
    )


class Config(SettingsSection):
    """One run, wholly described. What jobs receive is this, frozen in their release."""

    run_name: str = Field(
        "slim_run", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,40}$", description="name of the run"
    )
    run_dir: str = Field("runs/slim_run", min_length=1, description="folder of the run")
    training: TrainingSettings = Field(default_factory=TrainingSettings)
    slurm: SlurmSettings = Field(default_factory=SlurmSettings)
    collaboration: CollaborationSettings = Field(default_factory=CollaborationSettings)
    archive: ArchiveSettings = Field(default_factory=ArchiveSettings)
    reward: RewardSettings = Field(default_factory=RewardSettings)
    controller: ControllerSettings = Field(default_factory=ControllerSettings)
    mirror: MirrorSettings = Field(default_factory=MirrorSettings)

    @model_validator(mode="after")
    def _limits_fit(self) -> Config:
        parse_duration(self.slurm.time_limit)
        return self


RENAMED: dict[str, str] = {
    "max_runtime_seconds": "training.max_runtime_seconds",
    "streaming.enabled": "training.stream",
    "streaming.top_k": "training.stream_top_k",
    "streaming.tunnel_port": "training.stream_port",
    "slurm.time": "slurm.time_limit",
    "env.init_state": "training.start",
}
"""Keys of public configurations → ours. Where both stand, ours wins."""

WITHOUT_MEANING = (
    "training.buffer_size", "training.learning_starts", "training.train_every",
    "training.target_update", "training.frame_stack", "training.rnd_weight",
    "training.novelty_weight", "training.bayes_weight", "training.cnn_channels", "training.mode",
    "training.gru_size", "training.lstm_size", "training.ssm_size", "streaming.interval_steps",
    "training.structured_hidden", "training.stream_interval", "training.stream_candidates_path",
    "collaboration.fingerprint_required", "checkpointing.interval_minutes", "puffer_speedups",
    "checkpointing.max_checkpoints", "training.max_checkpoints", "env.state_dir",
)  # fmt: skip
"""Keys and sections of public configurations that are accepted with a warning and do nothing."""

REMOVED = (
    "training.adam_epsilon", "training.cache_dir", "training.log_interval",
    "training.mixed_precision", "training.states_dir", "training.stream_fps",
    "training.tensorboard", "training.torch_threads", "training.vector_groups",
    "collaboration.elastic_alpha", "collaboration.examine_share", "collaboration.keep_versions",
    "collaboration.laptop_staleness", "collaboration.max_staleness", "collaboration.polyak_alpha",
    "collaboration.sync_seconds", "collaboration.sync_share", "checkpointing",
    "archive.fresh", "archive.look_steps", "archive.patience", "archive.per_key",
    "archive.square", "archive.tries", "controller.drain_seconds", "controller.extra",
    "controller.overlap", "controller.prequeue", "controller.spares", "mirror.megabytes",
)  # fmt: skip
"""Keys and sections of the release before that are gone. A person's file gets one warning; in a
release's own frozen configuration they are passed over in silence."""

REMOVED_VALUES: dict[tuple[str, str], str] = {
    ("collaboration.rule", "elastic"): "end the old run (`run_controller stop` still works with "
    "this file as it is), then write delta and give the run a run_dir of its own; weights of the "
    "old run begin it: python -m Daddy.weights.model export, then import",
}
"""Values of the release before that are gone, each with its remedy. `start` refuses a person's
file; elsewhere the default stands in their place, with a warning unless a release's frozen
configuration is read."""
