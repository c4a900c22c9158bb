"""Every setting of a run: its name, type, default and meaning. No other module holds a default.

The names of the guide are public interface; ``docs/configuration.md`` lists all of them.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Section(BaseModel):
    """Base of all sections: unknown keys are errors, values are frozen and checked."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Training(Section):
    """What a learner does."""

    workload: Literal["pokemon_red", "cartpole"] = Field(
        "pokemon_red", description="what is trained"
    )
    total_steps: int = Field(5_000_000, ge=0, description="fleet steps that end the run; 0: never")
    num_envs: int = Field(8, ge=1, le=4096, description="environments per job")
    batch_size: int = Field(64, ge=1, description="steps in one PPO minibatch")
    device: Literal["auto", "cpu", "cuda", "mps"] = Field("cuda", description="where networks run")
    profile: Literal["auto", "cpu", "gpu"] = Field(
        "auto", description="set of defaults for horizon and learning rate; auto follows the device"
    )
    horizon: int | None = Field(None, ge=1, description="steps per environment and rollout")
    update_epochs: int = Field(4, ge=1, description="passes over a rollout")
    learning_rate: float | None = Field(None, gt=0, description="Adam step size")
    clip: float = Field(0.2, gt=0, description="PPO ratio clip")
    entropy: float = Field(0.01, ge=0, description="entropy bonus")
    value_coefficient: float = Field(0.5, ge=0, description="weight of the value loss")
    gamma: float = Field(0.99, gt=0, le=1, description="discount")
    gae_lambda: float = Field(0.95, ge=0, le=1, description="advantage trace decay")
    max_grad_norm: float = Field(0.5, gt=0, description="gradient norm clip")
    mixed_precision: bool = Field(True, description="bfloat16 networks on CUDA")
    torch_threads: int = Field(0, ge=0, description="threads of a learner; 0: a fair share")
    vector_backend: Literal["auto", "pufferlib", "threads", "serial"] = Field(
        "auto", description="how environments run side by side"
    )
    episode_steps: int = Field(2048, ge=1, description="actions after which an episode is cut")
    seed: int = Field(
        7, ge=0, description="seed of the run; every job and environment derives its own"
    )
    rom: str | None = Field(None, description="path of the ROM, absolute or relative to this file")
    allow_unknown_rom: bool = Field(False, description="run a ROM whose SHA-1 is not known")
    cartridge: bool = Field(False, description="a cluster run without a ROM plays the cartridge")
    checkpoint_interval: int = Field(10_000, ge=1, description="own steps between checkpoints")
    max_runtime_seconds: int = Field(13_500, ge=1, description="a job leaves by itself after this")
    log_interval: int = Field(1, ge=1, description="PPO iterations between metric rows")
    tensorboard: bool = Field(True, description="write TensorBoard files")
    stream: bool = Field(True, description="offer frames of the featured agents")
    stream_port: int = Field(9999, ge=1, le=65535, description="port of the SSH tunnel")
    stream_top_k: int = Field(2, ge=1, le=16, description="agents featured at once")
    stream_fps: float = Field(
        8.0, gt=0, le=60, description="pictures per second and featured agent"
    )


class Slurm(Section):
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


class Collaboration(Section):
    """How weights are shared."""

    enabled: bool = Field(True, description="jobs share weights")
    shared_dir: str = Field("", description="shared folder; empty: shared_weights in the run")
    rule: Literal["delta", "polyak"] = Field(
        "delta", description="how contributions move the weights"
    )
    polyak_alpha: float = Field(0.5, gt=0, le=1, description="share of a contribution under polyak")
    sync_interval_steps: int = Field(5000, ge=1, description="own steps between contributions")
    sync_seconds: float = Field(
        60.0, gt=0, description="age at which a contribution is merged alone"
    )
    wait_seconds: float = Field(5.0, ge=0, description="longest wait for a commit that is due")
    max_staleness: int = Field(4, ge=0, description="versions a job's base may lag")
    laptop_staleness: int = Field(8, ge=0, description="versions a laptop's base may lag")
    keep_versions: int = Field(8, ge=2, description="versions whose weights are kept")
    allowed_user_ids: list[str] = Field(
        default_factory=list, description="laptops that may contribute; empty: all in the inbox"
    )


class Checkpointing(Section):
    """How often private state goes to disk."""

    min_seconds: float = Field(60.0, ge=0, description="shortest time between due checkpoints")
    max_keep: int = Field(6, ge=2, description="checkpoints kept per slot")


class Controller(Section):
    """How the controller looks and queues."""

    executor: Literal["auto", "slurm", "local"] = Field("auto", description="where jobs run")
    poll_seconds: float = Field(30.0, gt=0, description="time between looks at the queue")
    prequeue: Literal["auto", "never"] = Field("auto", description="queue successors ahead")
    spares: int = Field(4, ge=0, description="successors that may wait beyond the slots")
    drain_seconds: float = Field(120.0, gt=0, description="time jobs get to leave at stop")
    relay: bool = Field(True, description="run the stream's relay beside the controller")


class Config(Section):
    """One run, wholly described. What jobs receive is this, frozen in their release."""

    run_name: str = Field(
        "slim_run", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,40}$", description="name of the run"
    )
    run_dir: str = Field("runs/slim_run", min_length=1, description="folder of the run")
    training: Training = Field(default_factory=Training)
    slurm: Slurm = Field(default_factory=Slurm)
    collaboration: Collaboration = Field(default_factory=Collaboration)
    checkpointing: Checkpointing = Field(default_factory=Checkpointing)
    controller: Controller = Field(default_factory=Controller)

    @model_validator(mode="after")
    def _limits_fit(self) -> Config:
        from Daddy.core.duration import parse_duration

        parse_duration(self.slurm.time_limit)
        return self


RENAMED: dict[str, str] = {
    "max_runtime_seconds": "training.max_runtime_seconds",
    "streaming.enabled": "training.stream",
    "streaming.top_k": "training.stream_top_k",
    "streaming.tunnel_port": "training.stream_port",
    "checkpointing.max_checkpoints": "checkpointing.max_keep",
    "training.max_checkpoints": "checkpointing.max_keep",
    "slurm.time": "slurm.time_limit",
}
"""Keys of public configurations → ours. Where both stand, ours wins."""

WITHOUT_MEANING = (
    "training.buffer_size", "training.learning_starts", "training.train_every",
    "training.target_update", "training.frame_stack", "training.rnd_weight",
    "training.novelty_weight", "training.bayes_weight", "training.cnn_channels",
    "training.gru_size", "training.lstm_size", "training.ssm_size",
    "training.structured_hidden", "training.mode", "training.stream_interval",
    "training.stream_candidates_path", "streaming.interval_steps",
    "collaboration.fingerprint_required", "checkpointing.interval_minutes", "puffer_speedups",
)  # fmt: skip
"""Keys of public configurations that are accepted with a warning and do nothing here."""
