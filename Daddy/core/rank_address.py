"""Pure. The ranks that train one model together (DDP), and the variables that name a rank."""

from collections.abc import Mapping
from dataclasses import dataclass

from Daddy.core.errors import ConfigError

_PORT = 29500
_STEP_START = ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT")


@dataclass(frozen=True, slots=True)
class RankAddress:
    """A rank, the number of ranks, and the address at which rank 0 listens."""

    rank: int = 0
    size: int = 1
    host: str = "127.0.0.1"
    port: int = _PORT
    """0: rank 0 binds a free port of the address from which it reaches `host`, and writes both to a
    file for the other ranks."""
    torchrun_store: bool = False
    """True if torchrun serves the store."""
    restart: str = "0"
    """Tells a start of the ranks from an earlier one."""


def read_rank(environment: Mapping[str, str], *, slurm: bool = False) -> RankAddress | None:
    """Return the rank that torchrun or a person has set; None if WORLD_SIZE is 1 or absent.

    With `slurm` and without WORLD_SIZE, the tasks that srun has started are the ranks. ConfigError
    for a number out of range.
    """
    step = slurm and "WORLD_SIZE" not in environment and "SLURM_STEP_ID" in environment
    given = _read_step(environment) if step else environment
    size = _number(given, "WORLD_SIZE", "1", range(1, 4097))
    if size == 1:
        return None
    return RankAddress(
        rank=_number(given, "RANK", "", range(size)),
        size=size,
        host=given.get("MASTER_ADDR", "127.0.0.1"),
        port=0 if step else _number(given, "MASTER_PORT", str(_PORT), range(1, 65536)),
        torchrun_store=given.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        restart=given.get("TORCHELASTIC_RESTART_COUNT", "0"),
    )


def rank_environment(at: RankAddress) -> dict[str, str]:
    """Return the variables of a rank; they replace those of our own start.

    torchrun's store serves the ranks that it started, not the ranks that these start.
    """
    return {
        "WORLD_SIZE": str(at.size),
        "RANK": str(at.rank),
        "MASTER_ADDR": at.host,
        "MASTER_PORT": str(at.port),
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }


def _read_step(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a Slurm task by their standard names.

    Its host is that of srun, at the address by which the nodes answer it, unless one is given.
    """
    host = environment.get("SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1")
    return {
        # SLURM_NTASKS may be the allocation's: its interactive shell is a step of one task.
        "WORLD_SIZE": environment.get("SLURM_STEP_NUM_TASKS", "1"),
        "RANK": environment.get("SLURM_PROCID", ""),
        "MASTER_ADDR": environment.get("MASTER_ADDR", host),
        "TORCHELASTIC_RESTART_COUNT": ".".join(environment.get(key, "0") for key in _STEP_START),
    }


def _number(environment: Mapping[str, str], name: str, default: str, allowed: range) -> int:
    text = environment.get(name, default)
    if text.isascii() and text.isdigit() and len(text) < 7 and int(text) in allowed:  # noqa: PLR2004
        return int(text)
    limits = f"{allowed[0]} to {allowed[-1]}"
    raise ConfigError(
        f"{name} is {text[:40]!r}, and not a number from {limits}",
        "set MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE as torchrun does, or unset WORLD_SIZE",
    )
