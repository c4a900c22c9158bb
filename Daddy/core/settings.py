"""All settings of a run: names, types, defaults and descriptions.

No other module has defaults. The names are public interface; ``docs/configuration.md`` is generated
from this module.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from Daddy.core.arguments import LARGEST_NUMBER
from Daddy.core.assist_compatibility import parse_assists
from Daddy.core.humanize import has_control_character, parse_duration

_YEAR_S = 366 * 86_400
MOST_ENVS = 4096
MOST_UNITS = 4096
"""Most units of a network's layer."""


class SettingsSection(BaseModel):
    """The base of all sections: refuses unknown keys, validates values and freezes them.

    Numbers are finite, of at most twelve digits, and not written as true or false. Text has no
    control characters: a newline would begin a line of its own in a job script. Only ``setup``,
    which is lines of that script, may have any.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_bool(cls, given: Any, field: ValidationInfo) -> Any:
        """Refuse true and false where a number is wanted: Python counts them as 1 and 0."""
        wanted = cls.model_fields[str(field.field_name)].annotation
        if isinstance(given, bool) and wanted in (int, float, int | None, float | None):
            raise ValueError(f"{str(given).lower()} is not a number")
        return given

    @field_validator("*")
    @classmethod
    def _refuse_unusable(cls, value: Any, field: ValidationInfo) -> Any:
        if isinstance(value, int | float) and abs(value) > LARGEST_NUMBER:
            raise ValueError(f"a number beyond {LARGEST_NUMBER:,} has no meaning here")
        for text in value if isinstance(value, list) else [value]:
            if not isinstance(text, str) or field.field_name == "setup":
                continue
            if has_control_character(text):
                raise ValueError(f"{text!r} contains a control character, such as a newline")
        return value


class HyperparameterSettings(SettingsSection):
    """The hyperparameters of PPO."""

    num_envs: int = Field(8, ge=1, le=MOST_ENVS, description="environments per job")
    profile: Literal["auto", "cpu", "gpu"] = Field(
        "auto",
        description="gpu: the tuned values below replace those of earlier layers; auto and cpu "
        "choose only horizon and learning rate, if those are not set; auto: by the device",
    )
    batch_size: int = Field(
        64, ge=1, le=1 << 24, description="environment steps in a PPO minibatch"
    )
    horizon: int | None = Field(
        None, ge=1, le=1 << 16, description="steps per environment in a rollout"
    )
    rollout: int | None = Field(
        None,
        ge=1,
        le=1 << 24,
        description="steps of all environments per rollout, if horizon is unset",
    )
    bptt: int = Field(16, ge=1, le=1 << 16, description="steps of backpropagation through the LSTM")
    encoder_size: int = Field(
        128,
        ge=1,
        le=MOST_UNITS,
        description="features that the game's encoder gives to the LSTM (fixed "
        "once a run has begun)",
    )
    lstm_size: int = Field(
        128,
        ge=0,
        le=MOST_UNITS,
        description="units of the game's LSTM (fixed once a run has begun); 0: no LSTM",
    )
    update_epochs: int = Field(3, ge=1, le=1000, description="PPO epochs over a rollout")
    learning_rate: float | None = Field(None, gt=0, description="Adam learning rate")
    learning_rate_schedule: Literal["constant", "linear"] = Field(
        "constant", description="linear: falls to a tenth at total_steps"
    )
    clip: float = Field(0.13, gt=0, description="PPO clip range of the probability ratio")
    value_clip: float = Field(0.0, ge=0, description="PPO clip range of values; 0: no clipping")
    entropy: float = Field(0.0013, ge=0, description="coefficient of the entropy bonus")
    value_coefficient: float = Field(0.5, ge=0, description="coefficient of the value loss")
    gamma: float = Field(0.99, gt=0, le=1, description="discount factor")
    gae_lambda: float = Field(0.97, ge=0, le=1, description="lambda of GAE (advantages)")
    max_grad_norm: float = Field(0.5, gt=0, description="norm to which gradients are clipped")
    normalise_rewards: bool = Field(
        True, description="divide rewards by the running standard deviation of returns"
    )


class GameSettings(SettingsSection):
    """The environment: its game, start and length."""

    episode_steps: int = Field(2048, ge=1, description="steps after which an episode is truncated")
    rom: str | None = Field(None, description="path of the ROM, relative to the config file")
    allow_unknown_rom: bool = Field(False, description="accept a ROM whose SHA-1 is unknown")
    cartridge: bool = Field(False, description="play the cartridge if a cluster run has no ROM")
    start: str = Field(
        "",
        description="start state: `bedroom`, `pokedex`, a recorded state's name, or the path of a "
        "PyBoy state; empty: `pokedex` in the real game, the beginning in the cartridge",
    )
    assists: list[str] = Field(
        default_factory=list,
        description="assists that may act: `none`, `peers` or a list of names (docs/assists.md)",
    )

    @field_validator("assists", mode="before")
    @classmethod
    def _sort_assists(cls, given: Any) -> list[str]:
        """Sort the names, so that the same assists give the same configuration."""
        return parse_assists(given)


class StreamingSettings(SettingsSection):
    """The live stream of a job's agents."""

    stream: bool = Field(True, description="stream pictures of the featured agents")
    stream_direct: bool = Field(
        True, description="jobs send frames to the relay over TCP (authenticated, not encrypted)"
    )
    stream_port: int = Field(9999, ge=1, le=65535, description="TCP port of the ssh tunnel")
    stream_top_k: int = Field(2, ge=1, le=16, description="agents featured at the same time")


class TrainingSettings(StreamingSettings, GameSettings, HyperparameterSettings):
    """All settings of a learner; a function that needs one part takes that part's class."""

    workload: Literal["pokemon_red", "cartpole"] = Field("pokemon_red", description="task to train")
    total_steps: int = Field(5_000_000, ge=0, description="steps of all learners; 0: no end")
    device: Literal["auto", "cpu", "cuda", "mps"] = Field(
        "cuda", description="torch device of the policy network"
    )
    vector_backend: Literal["processes", "pufferlib", "serial"] = Field(
        "processes",
        description="backend that runs environments in parallel; pufferlib (an extra) keeps every "
        "core busy while it waits",
    )
    seed: int = Field(
        7, ge=0, description="seed of the run; each job and environment derives its own"
    )
    checkpoint_interval: int = Field(10_000, ge=1, description="a learner's steps per checkpoint")
    max_runtime_seconds: int = Field(
        13_500, ge=1, le=_YEAR_S, description="seconds after which a job stops"
    )

    @model_validator(mode="before")
    @classmethod
    def _apply_profile(cls, given: Any) -> Any:
        """Fill in the profile's values for keys that are not given beside its name."""
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
"""Profile → its values of ``training``.

``gpu``: tuned values of the public learner that finished the game (pokemonred_puffer), adapted to a
job of one GPU and 8 CPUs. Four such learners together collect its 65,536 steps per update.
"""


TUNED: dict[str, Any] = {
    "training.profile": "gpu",
    "training.episode_steps": 1_000_000_000,
    "training.total_steps": 0,
    "archive.mode": "swarm",
}
"""Settings that `start` gives a run of the real game on CUDA, where nobody set them.

The best public learner never resets the game, and stagnated until it had an archive.
"""

SHIPPED_VALUES = {
    "slurm.partition": "gpu-linuxlab",
    "training.total_steps": 5_000_000,
    "training.num_envs": 8,
    "training.batch_size": 64,
}
"""Lines of the shipped file, for its readers, that count as not set while they say this."""


def profile_values(profile: object) -> dict[str, Any]:
    """Return the values of a profile; empty for any other name."""
    return PROFILES.get(profile, {}) if isinstance(profile, str) else {}


_SHORT_JOB_S = 600
OWN_OPTIONS = (
    "array", "chdir", "clusters", "comment", "dependency", "error", "export", "export-file", "help",
    "hold", "job-name", "name", "no-requeue", "nodes", "open-mode", "output", "parsable", "requeue",
    "signal", "test-only", "time", "time-min", "usage", "version", "wait", "wrap",
)  # fmt: skip
"""Options of sbatch that the controller sets or relies on."""
_OPTION_SETTINGS = {
    "account": "account", "constraint": "constraint", "cpus-per-task": "cpus_per_job",
    "exclude": "exclude", "gpus": "gpu_option", "gpus-per-node": "gpu_option",
    "licenses": "licenses", "mem": "memory", "mem-per-gpu": "mem_per_gpu",
    "partition": "partition", "qos": "qos", "reservation": "reservation",
}  # fmt: skip
"""Option of sbatch → the setting that gives it."""


class SlurmSettings(SettingsSection):
    """The resources of a job, and the limits of the site."""

    partition: str = Field(
        "gpu-linuxlab",
        description="partition to which jobs are submitted, or several, as a list or with commas; "
        "empty: the site's default",
    )
    account: str | None = Field(None, description="account to charge")
    qos: str | None = Field(None, description="quality of service (QOS)")
    constraint: str | None = Field(None, description="features that nodes must have: `a100&nvlink`")
    reservation: str | None = Field(None, description="reservation in which jobs run")
    licenses: str | None = Field(None, description="licenses per job, such as `sim:1`")
    time_limit: str = Field("4:00:00", description="time limit of a job, H:MM:SS")
    cpus_per_job: int = Field(8, ge=1, le=4096, description="CPUs per job")
    gpus_per_job: int = Field(1, ge=0, le=64, description="GPUs per job")
    gpu_type: str = Field(
        "", pattern=r"^[A-Za-z0-9_.-]*$", description="type of the GPUs, such as a100; empty: any"
    )
    gpu_option: Literal["gres", "gpus", "gpus-per-node"] = Field(
        "gres", description="option of sbatch that asks for GPUs: gres, gpus or gpus-per-node"
    )
    memory: str | None = Field(None, description="memory per job in Slurm's notation, such as 16G")
    mem_per_gpu: str | None = Field(None, description="memory per GPU in Slurm's notation")
    exclude: list[str] = Field(default_factory=list, description="nodes that jobs must not use")
    max_running: int = Field(4, ge=1, le=64, description="slots: jobs that train at the same time")
    setup: list[str] = Field(
        default_factory=list, description="shell commands at the start of the job script"
    )
    export: list[str] = Field(
        default_factory=list,
        description="names of variables that jobs get from the submitting shell",
    )
    options: list[str] = Field(
        default_factory=list,
        description="further options of sbatch, each `--key` or `--key=value`",
    )

    @field_validator("partition", mode="before")
    @classmethod
    def _join_partitions(cls, given: Any) -> Any:
        is_list = isinstance(given, list) and all(isinstance(name, str) for name in given)
        return ",".join(given) if is_list else given

    @field_validator("options")
    @classmethod
    def _refuse_owned(cls, given: list[str], others: ValidationInfo) -> list[str]:
        """Refuse options that the controller or a setting gives; sbatch takes shortened names."""
        for text in given:
            if (match := re.fullmatch(r"--([a-z][a-z0-9-]*)(=.+)?", text)) is None:
                raise ValueError(f"{text!r} is not of the form --key or --key=value")
            if any(own.startswith(match[1]) for own in OWN_OPTIONS):
                raise ValueError(f"{text!r}: --{match[1]} belongs to the controller")
            settings = {**_OPTION_SETTINGS}
            if others.data.get("gpu_option") == "gres" and others.data.get("gpus_per_job"):
                settings["gres"] = "gpus_per_job and slurm.gpu_type"
            for option, name in settings.items():
                if option.startswith(match[1]):
                    raise ValueError(f"{text!r}: --{option} is given by slurm.{name}")
        return given

    def limit_interval(self, seconds: float) -> float:
        """Return ``seconds``, but at most 1/20 of the time limit for jobs below ten minutes."""
        limit = parse_duration(self.time_limit)
        return min(seconds, limit / 20) if 0 < limit < _SHORT_JOB_S else seconds


class CollaborationSettings(SettingsSection):
    """The sharing of weights between learners."""

    enabled: bool = Field(True, description="jobs average their weights")
    shared_dir: str = Field("", description="shared folder; empty: shared_weights in the run")
    join: str = Field("", description="shared_weights folder of another account's run to join")
    rule: Literal["delta", "polyak"] = Field(
        "delta", description="merges add contributions (delta) or average weights (polyak)"
    )
    sync_interval_steps: int = Field(5000, ge=1, description="a learner's steps per contribution")
    allowed_user_ids: list[str] = Field(
        default_factory=list, description="user ids of laptops that may contribute; empty: all"
    )


KEPT_VERSIONS = 8
"""Versions whose weights are kept beside the newest: a learner may start from one four older."""
HISTORY_VERSIONS = 54
"""Older versions kept for a rollback: one an hour for a day and one a day for 30 days."""
HISTORY_MB = 256
"""Megabytes for those versions: three times the need of the default policy. Of a larger policy
fewer days are kept."""
KEPT_CHECKPOINTS = 6
"""Newest checkpoints kept per slot, in case the newest is damaged or unwanted."""
KEPT_HOURS = 6
"""Hours for which one checkpoint per hour is kept too: longer than a job runs."""


class ArchiveSettings(SettingsSection):
    """The archive of save states, and the environments that start from them."""

    mode: Literal["off", "swarm", "starts", "both"] = Field(
        "off",
        description="swarm: when an agent first reaches a new milestone, all environments continue "
        "from its state, and most episodes begin near it; starts: episodes begin from archived "
        "states; both; off: no archive",
    )


class RewardSettings(SettingsSection):
    """The reward per unit of each part; defaults are the tuned values of pokemonred_puffer."""

    cell: float = Field(
        0.029, description="a cell not visited since visits were last forgotten (memory_steps)"
    )
    open_goal: float = Field(
        9.5, ge=0, description="factor of `cell` on a map where a required milestone is missing"
    )
    way: float = Field(0.3, description="a connection between two maps, used for the first time")
    sign: float = Field(0.2, description="a sign read for the first time")
    event: float = Field(0.73, description="an event flag, set for the first time")
    required: float = Field(7.1, description="a required milestone, beside its event flag")
    item: float = Field(3.4, description="an item that the story needs, held for the first time")
    hm: float = Field(8.1, description="an HM (machine of a field move), held for the first time")
    badge: float = Field(1.9, description="a badge")
    level: float = Field(1.1, description="a level gained; beyond a sum of 15 a quarter")
    move: float = Field(4.1, description="a move that no party member knew before")
    seen: float = Field(2.2, description="a species seen")
    caught: float = Field(3.1, description="a species caught")
    field: float = Field(4.8, description="a field move that had an effect, once per map and move")
    heal: float = Field(0.75, description="largest share of the party's HP healed on a map")
    blackout: float = Field(-0.1, description="all party members fainted")
    memory_steps: int = Field(
        20_000,
        ge=0,
        description="steps after which cells, connections, signs and healings are forgotten and "
        "count again, at different times in each environment; 0: never",
    )


class ControllerSettings(SettingsSection):
    """The controller: its scheduler, polling, budget and helpers."""

    executor: Literal["auto", "slurm", "local"] = Field(
        "auto", description="scheduler that runs the jobs"
    )
    poll_seconds: float = Field(
        30.0, gt=0, le=86_400, description="seconds between two polls of the queue"
    )
    budget_gpu_hours: float = Field(
        0.0, ge=0, description="GPU-hours of jobs after which none is submitted; 0: no limit"
    )
    failover: bool = Field(
        True, description="running jobs make the controller's passes while no controller runs"
    )
    relay: bool = Field(True, description="run the stream's relay beside the controller")
    notify: str = Field(
        "", description="command that gets each notice on its standard input; empty: none"
    )


class MirrorSettings(SettingsSection):
    """The copy in the home directory from which a deleted run can be restored."""

    minutes: float = Field(
        10.0, ge=0, le=_YEAR_S / 60, description="minutes between two copies; 0: no mirror"
    )
    folder: str = Field(
        "", description="folder for the copies of all runs; empty: ~/.local/share/daddy/mirrors"
    )


class Config(SettingsSection):
    """The complete configuration of a run; each release has a frozen copy for its jobs."""

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
        if parse_duration(self.slurm.time_limit) > _YEAR_S:
            raise ValueError(f"slurm.time_limit {self.slurm.time_limit} is longer than a year")
        return self


RENAMED: dict[str, str] = {
    "max_runtime_seconds": "training.max_runtime_seconds",
    "streaming.enabled": "training.stream",
    "streaming.top_k": "training.stream_top_k",
    "streaming.tunnel_port": "training.stream_port",
    "slurm.time": "slurm.time_limit",
    "env.init_state": "training.start",
}
"""Keys of public configurations → our keys. If both are given, ours wins."""

WITHOUT_MEANING = (
    "training.buffer_size", "training.learning_starts", "training.train_every",
    "training.target_update", "training.frame_stack", "training.rnd_weight",
    "training.novelty_weight", "training.bayes_weight", "training.cnn_channels", "training.mode",
    "training.gru_size", "training.ssm_size", "streaming.interval_steps",
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
"""Keys and sections that the release before had. In a person's file they cause one warning; in a
release's frozen configuration they are ignored."""

RENAMED_VALUES: dict[tuple[str, str], str] = {
    ("training.vector_backend", "auto"): "processes",
    ("training.vector_backend", "threads"): "processes",
}
"""Values that the release before had → the value that is read instead: with a warning in a
person's file, in silence in a release's frozen configuration."""

REMOVED_VALUES: dict[tuple[str, str], str] = {
    ("collaboration.rule", "elastic"): "end the old run (`run_controller stop` still works with "
    "this file as it is), then write delta and give the run a run_dir of its own; weights of the "
    "old run begin it: python -m Daddy.weights.model export, then import"
}
"""Values that the release before had, each with its remedy. `start` refuses them in a person's
file; elsewhere the default replaces them, with a warning except in a release's frozen
configuration."""
