"""Loads weights, opens the game and plays episodes, for `play` and `evaluation`.

Weights may be a pulled or shared folder, a run, a checkpoint (or its folder), or a file. None of
these is written to.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from Daddy.core.agreed_settings import network_sizes
from Daddy.core.assist_compatibility import refuse_missing_assists
from Daddy.core.atomic_files import read_bounded
from Daddy.core.clock import Clock
from Daddy.core.errors import FileError, WeightsError
from Daddy.core.hyperparameters import seed_for
from Daddy.core.settings import Config, TrainingSettings
from Daddy.workloads import WORKLOADS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from Daddy.learning.play_loop import Agent
    from Daddy.pokemon.env import PokemonRedEnv

    Actor: TypeAlias = "Agent | RandomAgent"

GAME = "pokemon_red"
_BLOB_LIMIT = 1 << 30
_HEAD = Path("wan") / "HEAD.json"
_PROGRESS_EVERY_S = 2.0


class LoadedWeights(NamedTuple):
    """Holds the weights of a network, and a label for people."""

    label: str
    weights: Mapping[str, Any]


def find_weights(path: Path, assists: Sequence[str] = ()) -> LoadedWeights:
    """Load the weights at `path`; WeightsError if none, or made with assists not in `assists`."""
    path = path.expanduser()
    for shared in (path, path / "shared_weights"):
        if (shared / _HEAD).exists():
            return _newest_version(shared, assists)
    try:
        manifest = _newest_checkpoint(path)
        return _checkpoint(manifest, assists) if manifest else _single(path, assists)
    except (FileError, FileNotFoundError) as error:
        raise WeightsError(
            f"there are no weights to play in {path}: {error}",
            "name a shared_weights folder, a run, a checkpoint (t…-s….json) or a file of weights; "
            "--random plays without weights",
        ) from error


def _newest_version(shared: Path, assists: Sequence[str]) -> LoadedWeights:
    from Daddy.weights.encoding.state_codec import decode
    from Daddy.weights.laptop.pulled_folder import newest_verified

    newest = newest_verified(shared)
    if newest is None:
        raise WeightsError(f"{shared} holds no version yet", "pull again")
    refuse_other_workload(newest.head.workload, shared)
    refuse_missing_assists(newest.label, newest.head.assists, assists)
    return LoadedWeights(f"version {newest.version} of {newest.head.run}", decode(newest.data))


def _newest_checkpoint(path: Path) -> Path | None:
    """Return the manifest beside the file `path`, or that of most steps in a folder, or None."""
    from Daddy.learning.checkpoint import list_manifests

    if path.is_dir():
        folders = [path, path / "checkpoints", *sorted(path.glob("slots/*/checkpoints"))]
        newest = [path for folder in folders for path in list_manifests(folder)[:1]]
        return max(newest, key=lambda path: path.stem.rpartition("-s")[2], default=None)
    beside = path.with_suffix(".json")
    return beside if beside in list_manifests(path.parent) else None


def _checkpoint(manifest: Path, assists: Sequence[str]) -> LoadedWeights:
    from Daddy.learning.checkpoint import load_checkpoint, select_prefix

    checkpoint = load_checkpoint(manifest)
    refuse_other_workload(checkpoint.facts.get("workload"), manifest)
    theirs = checkpoint.facts.get("assists", ())
    refuse_missing_assists(f"the checkpoint {manifest}", theirs, assists)
    label = f"checkpoint at step {checkpoint.step:,}"
    return LoadedWeights(label, select_prefix(checkpoint.tensors, "policy."))


def _single(path: Path, assists: Sequence[str]) -> LoadedWeights:
    from Daddy.weights.encoding.state_codec import decode
    from Daddy.weights.encoding.tensor_layout import metadata_of
    from Daddy.weights.import_export import read_card
    from Daddy.weights.laptop.pulled_folder import read_laptop_head

    if path.is_dir():
        raise FileError("the folder holds neither versions nor checkpoints")
    data = read_bounded(path, _BLOB_LIMIT)
    card = read_card(metadata_of(data), str(path))
    if card is not None:
        refuse_other_workload(card.workload, path)
        refuse_missing_assists(f"{path}, {card.title},", card.assists, assists)
        return LoadedWeights(card.title, decode(data, card.schema))
    for folder in path.absolute().parents[:3]:  # the head record of a shared or pulled folder
        if (frame := read_laptop_head(folder / _HEAD)) is not None:
            refuse_missing_assists(f"v{frame.version} of run {frame.run!r}", frame.assists, assists)
    return LoadedWeights(path.name, decode(data))


def refuse_other_workload(workload: object, where: Path) -> None:
    """Raise WeightsError unless the weights in `where` are for the workload pokemon_red."""
    if workload != GAME:
        raise WeightsError(f"{where} holds weights of {workload!r}", f"only {GAME} can be played")


def open_game(config: Config) -> PokemonRedEnv:
    """Open the configured game with its archive off; RomError if the ROM cannot be used."""
    alone = config.archive.model_copy(update={"mode": "off"})
    config = config.model_copy(update={"archive": alone})
    game: PokemonRedEnv = WORKLOADS[GAME].make_env(config)()  # type: ignore[assignment]
    return game


class RandomAgent:
    """Plays actions from 0 to `actions` - 1 uniformly at random: the baseline of a policy."""

    def __init__(self, actions: int) -> None:
        self._actions = actions
        self.start_episode(0)

    def start_episode(self, seed: int) -> None:
        """Start an episode: seed the random generator with `seed`."""
        import numpy as np

        self._generator = np.random.default_rng(seed_for(seed, "mashing"))

    def act(self, observation: Mapping[str, NDArray[Any]]) -> int:  # noqa: ARG002 - unused
        """Return a random action; ignore `observation`."""
        return int(self._generator.integers(self._actions))


def make_actor(game: PokemonRedEnv, weights: LoadedWeights | None) -> Actor:
    """Return an actor that plays by `weights`, or presses random buttons if they are None."""
    from Daddy.pokemon.emulator import BUTTONS

    if weights is None:
        return RandomAgent(len(BUTTONS))
    from Daddy.learning.device import limit_threads
    from Daddy.learning.play_loop import make_agent

    limit_threads(1)
    training = TrainingSettings(**network_sizes(weights.weights))
    policy = WORKLOADS[GAME].make_policy(training, game.observation_space, game.action_space)  # type: ignore[arg-type]
    return make_agent(policy, weights.weights, weights.label)


class EpisodeStep(NamedTuple):
    """Holds the number of actions so far, the last one's reward, and True if it won the game."""

    step: int
    reward: float
    won: bool


def episode_steps(game: PokemonRedEnv, actor: Actor, seed: int) -> Iterator[EpisodeStep]:
    """Play an episode from `seed`; yield an EpisodeStep at its start and after each action."""
    observation, _ = game.reset(seed=seed)
    actor.start_episode(seed)
    step, ended = 0, False
    yield EpisodeStep(step, 0.0, won=False)
    while not ended:
        observation, reward, won, truncated, _ = game.step(actor.act(observation))
        step, ended = step + 1, won or truncated
        yield EpisodeStep(step, float(reward), won)


def play_episodes(game: PokemonRedEnv, actor: Actor, seed: int, go_on: Callable[[], bool]) -> None:
    """Play episodes from `seed`, `seed` + 1 and so on, while `go_on()` returns True."""
    while go_on():
        for _ in episode_steps(game, actor, seed):
            if not go_on():
                return
        seed += 1


class ProgressLines:
    """Prints lines about work that lasts, to stderr: one every two seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._printed = clock, clock.monotonic()

    def show(self, text: str) -> None:
        """Print `text` if two seconds have passed since the last line, or since the start."""
        if self._clock.monotonic() - self._printed >= _PROGRESS_EVERY_S:
            self._printed = self._clock.monotonic()
            print(f"  {text}", file=sys.stderr, flush=True)


class Pacer:
    """Waits between pictures, so that they appear at a steady rate."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._never = clock, threading.Event()
        self.restart()

    def restart(self) -> None:
        """Let the next `wait` count from the present time."""
        self._due = self._clock.monotonic()

    def wait(self, seconds: float) -> None:
        """Wait until `seconds` after the last wait's end; return at once if that is past."""
        self._due = max(self._due + seconds, self._clock.monotonic())
        self._clock.wait(self._never, self._due - self._clock.monotonic())


def add_game_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags for the game and its start state."""
    flag = parser.add_argument
    flag("--rom", help="path of your PokemonRed.gb (DADDY_ROM; if unset, the cartridge)")
    flag("--cartridge", action="store_true", help="play the free game that Daddy ships")
    flag("--allow-unknown-rom", action="store_true", help="accept a ROM of unknown SHA-1")
    flag("--start", metavar="NAME|FILE", help="start state: bedroom, pokedex, recorded, or a file")
