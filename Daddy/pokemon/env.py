"""The game as a Gymnasium environment: `PokemonRedEnv`, id ``Daddy/PokemonRed-v0``.

A step is one of seven keys, 24 frames, one picture, one reward. Equal seeds and actions give equal
episodes. `env_state_format` and `load_state` go on exactly, with the exploration memory, the
counters and the random generator.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from Daddy.core.assist_rules import to_bits
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
from Daddy.pokemon.observation import Observation, observation_space, observe
from Daddy.pokemon.ram_map import RANDOM
from Daddy.pokemon.reward import Records, RewardTracker
from Daddy.pokemon.starts.start_state import start_state

TELEMETRY: Final = (
    *("badges", "story_flags", "episode_return", "episode", "map_id", "level", "step"),
    *("cells", "maps", "events", "x", "y", "waits", "real_game"),
    *("assists", "assists_used", "assists_off", *story_milestones.MILESTONE_COLUMNS),
)
_START_FRAMES = 60
"""Frames an episode may begin later than another: the game stirs its dice once a frame."""


class PokemonRedEnv(gymnasium.Env[Observation, np.int64]):
    """Pokémon Red, Blue or the free cartridge with seven keys.

    Observation: see `Daddy.pokemon.observation.observation_space`. Actions: index into BUTTONS.
    Reward: sum of the named parts of `Daddy.core.settings.RewardSettings`, which every step's info
    holds as ``reward_parts``; the last step's info adds the episode's summary. An episode
    terminates when the game is won and is truncated after `episode_steps`.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - gymnasium's name and type
        "render_modes": ["rgb_array"],
        "render_fps": FRAMES_PER_SECOND / FRAMES_PER_STEP,
    }
    telemetry_names: tuple[str, ...] = TELEMETRY

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
        """Open the game `rom` (None: the variable DADDY_ROM, else the cartridge).

        `init_state` names the state that episodes begin from. `assists`: names of `assist_rules`
        (ValueError). `recorder`: from
        `start_prefix.recorder_at`. RomError.
        """
        self.rom = load_rom(find_rom(rom), allow_unknown_rom)
        self.observation_space = observation_space()
        self.action_space = spaces.Discrete(len(BUTTONS))
        self.render_mode = render_mode
        self.episode_steps = episode_steps
        self._weights = weights or RewardSettings()
        self._start = start_state(self.rom, init_state)
        self._emulator = Emulator(self.rom.data, recorder)
        self._emulator.restore_state(self._start)
        self._helper = AssistRunner(self._emulator, assists)
        self.assists = self._helper.names
        """Names of the scripted helps in use."""
        self._episode = -1
        self.journal: Mapping[str, Any] = {}
        """Facts (JSON) of the caller of `step`; they travel with the state."""
        self._forget()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode; without a seed the next one of the same random sequence."""
        super().reset(seed=seed, options=options)
        self._episode = 0 if seed is not None else self._episode + 1
        self._begin()
        return self._observe(), {}

    def _begin(self) -> None:
        """The start state, a few frames later and with other dice than the last time."""
        self._emulator.restore_state(self._start)
        for address, value in zip(RANDOM, self.np_random.integers(0, 256, 2), strict=True):
            self._emulator.write(address, int(value))
        self._emulator.wait(1 + int(self.np_random.integers(_START_FRAMES)))
        self._forget()

    def _forget(self) -> None:
        """Counters and memory of a new episode."""
        self._steps, self._return, self._waits = 0, 0.0, 0
        self._parts: dict[str, float] = {}
        self._said: dict[str, Any] = {}
        self._helper.state = self._helper.state.in_new_game()
        self.progress: Progress = read_progress(self._emulator.ram())
        """The facts of this moment."""
        self._tracker = self._track({"left": self._first_span()})

    def _first_span(self) -> int:
        """Steps until the memory is first forgotten: half a span to one and a half, by chance.

        Environments then forget at different times, and short episodes never do.
        """
        span = self._weights.memory_steps
        return span // 2 + int(self.np_random.random() * span)

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Hold a key for 8 of 24 frames; see the class for the result.

        While a script has control the step goes on, for up to 20 times as long: `cutscene.wait`.
        """
        self.start_step(action)
        return self.finish_step()

    def start_step(self, action: np.int64 | int) -> None:
        """Do the first half of a step: 24 frames, and hardly any Python.

        A caller with several environments begins all of them, then finishes all: docs/decisions/07.
        """
        button, self._said = self._helped(BUTTONS[action])
        self._emulator.press(button)
        self._screen = self._emulator.half_screen()  # while it lies in the cache

    def finish_step(self) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Do the second half of a step: facts, reward and observation."""
        image, waited = cutscene.wait_for_control(self._emulator)
        if waited:
            self._waits += waited
            self._screen = self._emulator.half_screen()
        was, now = self.progress, read_progress(image)
        self.progress, parts = now, self._tracker.pay_step(was, now)
        reward = self._account(parts)
        won, late = now.wins > was.wins, self._steps >= self.episode_steps
        info = {"reward_parts": parts, **self._said}
        if won or late:
            info |= dict(zip(TELEMETRY, PokemonRedEnv.telemetry(self), strict=True))
            info["return_parts"] = self._parts
        return self._see(), reward, won, late, info

    def _helped(self, button: str) -> tuple[str, dict[str, Any]]:
        """The key to press after the assists, and what they did; what they change pays nothing."""
        done = self._helper.act_before_key(self.progress, button)
        if done.wrote:
            self.progress = read_progress(self._emulator.ram())
            self._tracker.mark_paid(self.progress)
        return done.button, {"helped": done.messages} if done.messages else {}

    def _account(self, parts: dict[str, float]) -> float:
        reward = sum(parts.values())
        self._steps += 1
        self._return += reward
        for name, value in parts.items():
            self._parts[name] = self._parts.get(name, 0.0) + value
        return reward

    def _observe(self) -> Observation:
        self._screen = self._emulator.half_screen()
        return self._see()

    def _see(self) -> Observation:
        return observe(self._screen, self.progress, self._tracker.memory.visited)

    def telemetry(self) -> tuple[float, ...]:
        """State of the episode: one number for each of `telemetry_names`."""
        now, records, assists = self.progress, self._tracker.records, self._helper.state
        return (
            now.badge_count,
            now.story_flags,
            self._return,
            self._episode,
            now.map_id,
            max((creature.level for creature in now.party), default=0),
            self._steps,
            self._tracker.memory.cells,
            records.maps.bit_count(),
            records.events.bit_count(),
            now.x,
            now.y,
            self._waits,
            float(self.rom.real),
            *(
                to_bits(names) if names else 0
                for names in (self._helper.names, assists.used, assists.names_off)
            ),
            *story_milestones.milestones_to_columns(records.held, self.rom.real),
        )

    @property
    def assists_used(self) -> frozenset[str]:
        """Those that acted in this game, or in one that it descends from."""
        return self._helper.state.used

    def set_watcher(self, watcher: Callable[[], None] | None) -> None:
        """Have `watcher` called about 15 times a second of the game, to film it; None: never."""
        self._emulator.watcher = watcher

    def picture(self) -> bytes:
        """The screen at 2 bits a pixel, `core.shared_types.SCREEN_BYTES` bytes."""
        return self._emulator.packed_screen()

    def render(self) -> NDArray[np.uint8] | None:  # type: ignore[override]
        """The screen, (144, 160, 3) uint8, in render mode ``rgb_array``."""
        if self.render_mode != "rgb_array":
            return None
        return np.repeat(self._emulator.full_screen()[:, :, None], 3, axis=2)

    def save_state(self) -> bytes:
        """Everything that the rest of the episode and the episodes after it depend on."""
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
            assists=self._helper.assist_facts(),
        )
        return saving.encode_env_state(state)

    def load_state(self, data: bytes) -> Observation:
        """Go on exactly where `env_state_format` was called.

        RomError for another game's state, and one that had assists which are not in use here.
        """
        state = saving.decode_env_state(data, self.rom.sha1, PYBOY_VERSION)
        assists = self._helper.restore_assists(state.assists)
        self._tracker, self._helper.state = self._go_on_in(state), assists
        self.np_random = saving.generator_from(state.generator)
        self._steps, self._episode = state.steps, state.episode
        self._waits = state.waits
        self._return, self._parts = state.episode_return, dict(state.parts)
        self.journal = state.journal
        return self._observe()

    def adopt_game(self, data: bytes) -> Observation:
        """Go on in the game that another environment saved; the jump itself is worth nothing.

        Game, exploration memory and records are the other's, so that nothing is paid twice. The
        episode stays what it was: its number, its return, its end, its random sequence.
        """
        state = saving.decode_env_state(data, self.rom.sha1, PYBOY_VERSION)
        assists = self._helper.state.in_adopted_game(self._helper.restore_assists(state.assists))
        self._tracker.adopt(self._go_on_in(state))
        self._helper.state = assists
        return self._observe()

    def _go_on_in(self, state: saving.EnvState) -> RewardTracker:
        """Load a game and return the tracker of what it was paid for."""
        self._emulator.restore_state(state.emulator)
        self.progress = read_progress(self._emulator.ram())
        return self._track(state.memory, state.records, state.visited)

    def _track(
        self, facts: Mapping[str, Any], records: Records | None = None, cells: bytes = b""
    ) -> RewardTracker:
        return RewardTracker(self._weights, self.rom.real, self.progress, facts, records, cells)

    def close(self) -> None:
        """End the emulator."""
        self._emulator.close()
