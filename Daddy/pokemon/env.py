"""Defines the game as a Gymnasium environment: `PokemonRedEnv`, id ``Daddy/PokemonRed-v0``.

A step is one of seven keys, 24 frames, one picture, one reward. Equal seeds and actions give equal
episodes. `save_state` and `load_state` continue an episode exactly, with its exploration memory,
counters and random generator.
"""

import operator
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, NoReturn

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ClosedEnvironmentError, InvalidAction, UnsupportedMode
from numpy.typing import NDArray

from Daddy.core.assist_compatibility import to_bits
from Daddy.core.errors import ConfigError
from Daddy.core.rom_identity import load_rom
from Daddy.core.settings import RewardSettings
from Daddy.pokemon import cutscene, story_milestones
from Daddy.pokemon import env_state_format as saving
from Daddy.pokemon.assists.apply_assists import AssistRunner
from Daddy.pokemon.emulator import (
    BUTTONS,
    FRAMES_PER_SECOND,
    FRAMES_PER_STEP,
    PYBOY_VERSION,
    Emulator,
)
from Daddy.pokemon.find_rom import find_rom
from Daddy.pokemon.game_progress import Progress, read_progress
from Daddy.pokemon.inputs.input_recorder import InputRecorder
from Daddy.pokemon.observation import (
    Observation,
    ObservationWriter,
    observation_space,
    observe,
)
from Daddy.pokemon.ram_map import RANDOM
from Daddy.pokemon.reward import Records, RewardTracker
from Daddy.pokemon.starts.find_start_state import start_state

TELEMETRY: Final = (
    *("x", "y", "map_id", "step", "episode", "episode_return", "cells", "waits"),
    *("badges", "story_flags", "level", "maps", "events", "real_game"),
    *("assists", "assists_used", "assists_off", *story_milestones.MILESTONE_COLUMNS),
)
"""Names of the numbers in an environment's telemetry; those of the first line change often."""
_START_FRAMES = 60
"""Frames by which the starts of episodes differ: the game's random numbers change every frame."""


class PokemonRedEnv(gymnasium.Env[Observation, np.int64]):
    """Plays Pokémon Red, Blue or the free cartridge with seven keys.

    Observation: see `Daddy.pokemon.observation.observation_space`. Actions: index into BUTTONS.
    Reward: sum of the named parts of `Daddy.core.settings.RewardSettings`, which every step's info
    holds as ``reward_parts``; the last step's info adds the episode's ``return_parts`` and its
    ``summary``, a value for each name of TELEMETRY. An episode terminates when the game is won and
    is truncated after `episode_steps`.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - gymnasium's name and type
        "render_modes": ["rgb_array"],
        "render_fps": FRAMES_PER_SECOND / FRAMES_PER_STEP,
    }
    telemetry_names: tuple[str, ...] = TELEMETRY
    _writer: ObservationWriter | None = None
    _achieved_sources: tuple[object, object, object] = (None, None, None)
    _achieved_values: tuple[float, ...] = ()

    def __init__(
        self,
        rom: str | os.PathLike[str] | None = None,
        *,
        allow_unknown_rom: bool = False,
        init_state: str | os.PathLike[str] | None = None,
        episode_steps: int = 2048,
        weights: RewardSettings | None = None,
        assists: Iterable[str] = (),
        render_mode: str | None = None,
        recorder: InputRecorder | None = None,
    ) -> None:
        """Open the game `rom` (None: the path in DADDY_ROM, or if unset the free cartridge).

        `init_state` names the state that episodes begin from; `assists` are names of
        `assist_compatibility` (ValueError); `recorder` is made by `recorder_at_start`. RomError;
        ConfigError unless `episode_steps` is a positive int; UnsupportedMode for a `render_mode`
        that `metadata` lacks.
        """
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise UnsupportedMode(
                f"render_mode {render_mode!r} is not supported: use 'rgb_array', or, for a window, "
                "gymnasium.make(..., render_mode='human')"
            )
        self.rom = load_rom(find_rom(rom), allow_unknown_rom)
        self.observation_space = observation_space()
        self.action_space = spaces.Discrete(len(BUTTONS))
        self.render_mode = render_mode
        if type(episode_steps) is not int or episode_steps < 1:
            raise ConfigError(
                f"episode_steps {episode_steps!r} is not a whole number from 1 on",
                "give the number of actions after which an episode is truncated, such as 2048",
            )
        self.episode_steps = episode_steps
        self._weights = weights or RewardSettings()
        self._start = start_state(self.rom, init_state)
        self._emulator = Emulator(self.rom.data, recorder)
        self._emulator.restore_state(self._start)
        self._assists = AssistRunner(self._emulator, assists)
        self.assists = self._assists.names
        """Names of the assists in use."""
        self._episode = -1
        self.journal: Mapping[str, Any] = {}
        """Facts (JSON) of the caller of `step`, saved with the state."""
        self._reset_episode()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode and return its first observation; None as `seed` keeps the generator.

        ValueError for any of `options`: there are none.
        """
        if options:
            raise ValueError(
                f"unknown reset options {list(options)}: this environment has none; its start "
                "state is given when it is made (init_state=)"
            )
        super().reset(seed=seed, options=options)
        self._episode = 0 if seed is not None else self._episode + 1
        self._load_start()
        return self._observe(), {}

    def _load_start(self) -> None:
        """Load the start state, reseed the game's random numbers and wait a random time."""
        self._emulator.restore_state(self._start)
        for address, value in zip(RANDOM, self.np_random.integers(0, 256, 2), strict=True):
            self._emulator.write(address, int(value))
        self._emulator.wait(1 + int(self.np_random.integers(_START_FRAMES)))
        self._reset_episode()

    def _reset_episode(self) -> None:
        """Reset counters and exploration memory for a new episode; read the present facts."""
        self._steps, self._return, self._waits = 0, 0.0, 0
        self._parts: dict[str, float] = {}
        self._assist_info: dict[str, Any] = {}
        self._assists.state = self._assists.state.in_new_game()
        self.progress: Progress = read_progress(self._emulator.ram())
        """The game's present facts."""
        self._tracker = self._make_tracker({"left": self._first_span()})

    def _first_span(self) -> int:
        """Draw the steps until the exploration memory is first cleared: 0.5 to 1.5 `memory_steps`.

        So environments clear their memory at different times, and short episodes keep theirs.
        """
        span = self._weights.memory_steps
        return span // 2 + int(self.np_random.random() * span)

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Hold key `action` for 8 of 24 frames; return observation, reward, won, truncated, info.

        While a script has control the step continues, up to 20 times as long (`cutscene`).
        InvalidAction unless `action` is an integer of `action_space`; ConfigError (see
        `reward_parts`); ClosedEnvironmentError after `close`.
        """
        self.start_step(action)
        return self.finish_step()

    def start_step(self, action: np.int64 | int) -> None:
        """Do the first half of a step: 24 frames in the emulator, and hardly any Python.

        A caller with several environments starts the step of each, then finishes each; for the
        reason see docs/decisions/07.
        """
        button, self._assist_info = self._run_assists(_key_of(action))
        self._emulator.press(button)
        self._copy_screen()  # while it is in the CPU's cache

    def finish_step(self) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Do the second half of a step: wait for scripts, read the facts, compute the result."""
        image, waited = cutscene.wait_for_control(self._emulator)
        if waited:
            self._waits += waited
            self._copy_screen()
        was, now = self.progress, read_progress(image)
        self.progress, parts = now, self._tracker.pay_step(was, now)
        reward = self._account(parts)
        terminated, truncated = now.wins > was.wins, self._steps >= self.episode_steps
        info = {"reward_parts": parts, **self._assist_info}
        if terminated or truncated:
            info["summary"] = dict(zip(TELEMETRY, PokemonRedEnv.telemetry(self), strict=True))
            info["return_parts"] = dict(self._parts)
        return self._make_observation(), reward, terminated, truncated, info

    def _run_assists(self, button: str) -> tuple[str, dict[str, Any]]:
        """Run the assists, mark their changes as paid; return the key to press and messages."""
        result = self._assists.act_before_key(self.progress, button)
        if result.wrote:
            self.progress = read_progress(self._emulator.ram())
            self._tracker.mark_paid(self.progress)
        return result.button, {"helped": result.messages} if result.messages else {}

    def _account(self, parts: dict[str, float]) -> float:
        reward = sum(parts.values())
        self._steps += 1
        self._return += reward
        for name, value in parts.items():
            self._parts[name] = self._parts.get(name, 0.0) + value
        return reward

    def _observe(self) -> Observation:
        self._copy_screen()
        return self._make_observation()

    def _copy_screen(self) -> None:
        out = self._writer.screen if self._writer else None
        self._screen = self._emulator.half_screen(out)

    def _make_observation(self) -> Observation:
        write = self._writer.write if self._writer else observe
        return write(self._screen, self.progress, self._tracker.memory.visited)

    def observe_into(self, arrays: Observation) -> None:
        """Write each later observation into `arrays`, and return them instead of new ones.

        Nobody else may write to `arrays`: what has not changed is not written again.
        """
        self._writer = ObservationWriter(arrays)

    def telemetry(self) -> tuple[float, ...]:
        """Return one number for each of `telemetry_names`."""
        now = self.progress
        often = now.x, now.y, now.map_id, self._steps, self._episode
        return (*often, self._return, self._tracker.memory.cells, self._waits, *self._achieved())

    def _achieved(self) -> tuple[float, ...]:
        """Return the telemetry that few steps change; computed if a source is another object."""
        now, records, assists = self.progress, self._tracker.records, self._assists.state
        sources = now.holdings, records, assists
        if any(map(operator.is_not, sources, self._achieved_sources)):
            self._achieved_sources = sources
            self._achieved_values = (
                now.badge_count,
                now.story_flags,
                max([creature.level for creature in now.party], default=0),
                records.maps.bit_count(),
                records.events.bit_count(),
                float(self.rom.real),
                to_bits(self._assists.names),
                to_bits(assists.used),
                to_bits(assists.names_off),
                *story_milestones.milestones_to_columns(records.held, self.rom.real),
            )
        return self._achieved_values

    @property
    def assists_used(self) -> frozenset[str]:
        """Names of the assists that intervened in this game or in a game that it continues."""
        return self._assists.state.used

    def set_watcher(self, watcher: Callable[[], None] | None) -> None:
        """Call `watcher` about 15 times per second of game time from now on; None: never."""
        self._emulator.watcher = watcher

    def picture(self) -> bytes:
        """Return the screen at 2 bits a pixel, `core.shared_types.SCREEN_BYTES` bytes."""
        return self._emulator.packed_screen()

    def render(self) -> NDArray[np.uint8] | None:  # type: ignore[override]
        """Return the screen, (144, 160, 3) uint8, in render mode ``rgb_array``, or None."""
        if self.render_mode != "rgb_array":
            return None
        return np.repeat(self._emulator.full_screen()[:, :, None], 3, axis=2)

    def save_state(self) -> bytes:
        """Return as bytes everything on which the rest of the episode and later ones depend."""
        state = saving.EnvState(
            rom_sha1=self.rom.sha1,
            pyboy=PYBOY_VERSION,
            steps=self._steps,
            episode=self._episode,
            episode_return=self._return,
            parts=self._parts,
            records=self._tracker.records,
            generator=self.np_random.bit_generator.state,
            visited=self._tracker.memory.visited.encode_cells(),
            memory=self._tracker.to_facts(),
            waits=self._waits,
            emulator=self._emulator.dump_state(),
            journal=self.journal,
            assists=self._assists.assist_facts(),
        )
        return saving.encode_env_state(state)

    def load_state(self, data: bytes) -> Observation:
        """Restore the result of `save_state`, and return the observation at that step.

        RomError for a state of another game, or made with assists that are not in use here.
        """
        state = saving.decode_env_state(data, self.rom.sha1, PYBOY_VERSION)
        assists = self._assists.restore_assists(state.assists)
        self._tracker, self._assists.state = self._load_game(state), assists
        self.np_random = saving.generator_from(state.generator)
        self._steps, self._episode = state.steps, state.episode
        self._waits = state.waits
        self._return, self._parts = state.episode_return, dict(state.parts)
        self.journal = state.journal
        return self._observe()

    def adopt_game(self, data: bytes) -> Observation:
        """Continue in the game that another environment saved, without a reward for the change.

        The exploration memory and the records are loaded with the game, so that nothing is paid
        twice. The episode keeps its number, return, last step and random sequence.
        """
        state = saving.decode_env_state(data, self.rom.sha1, PYBOY_VERSION)
        assists = self._assists.state.in_adopted_game(self._assists.restore_assists(state.assists))
        self._tracker.adopt(self._load_game(state))
        self._assists.state = assists
        return self._observe()

    def _load_game(self, state: saving.EnvState) -> RewardTracker:
        """Load a saved game into the emulator, read its facts, and return its RewardTracker."""
        self._emulator.restore_state(state.emulator)
        self.progress = read_progress(self._emulator.ram())
        return self._make_tracker(state.memory, state.records, state.visited)

    def _make_tracker(
        self, facts: Mapping[str, Any], records: Records | None = None, cells: bytes = b""
    ) -> RewardTracker:
        return RewardTracker(self._weights, self.rom.real, self.progress, facts, records, cells)

    def close(self) -> None:
        """Stop the emulator; afterwards all that needs it raises ClosedEnvironmentError."""
        self._emulator.close()
        self._emulator = _ClosedEmulator()  # type: ignore[assignment]

    def __reduce__(self) -> NoReturn:
        """Refuse copies and pickles, which the emulator cannot have: TypeError."""
        raise TypeError(
            f"{type(self).__name__} runs an emulator and can be neither copied nor pickled: make "
            "another with the same arguments, and give its load_state() this one's save_state()"
        )


def _key_of(action: np.int64 | int) -> str:
    """Return the key with this index; InvalidAction for all but integers in range, and bools."""
    with suppress(TypeError):
        if not isinstance(action, bool | np.bool_) and 0 <= (index := operator.index(action)) < len(
            BUTTONS
        ):
            return BUTTONS[index]
    raise InvalidAction(
        f"action {action!r:.80} ({type(action).__name__}) is not an integer from 0 to "
        f"{len(BUTTONS) - 1}: the index of a key in {BUTTONS}"
    )


class _ClosedEmulator:
    """Stands in for the emulator of a closed environment: any use but `close` is an error."""

    def close(self) -> None:
        """Do nothing."""

    def __getattr__(self, name: str) -> NoReturn:
        raise ClosedEnvironmentError("the environment is closed: make another")
