"""Plays `PokemonRedEnv` with an archive: keeps states at new milestones, goes on from the fleet's.

Loading a state pays nothing and ends no episode; the step before keeps its reward. A fault of the
archive or its disk costs a state, never the environment.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from Daddy.core.errors import FileError, RomError
from Daddy.pokemon import story_milestones
from Daddy.pokemon.archive import claim_format, env_history, state_selection
from Daddy.pokemon.archive import state_keys as keys
from Daddy.pokemon.archive.archive_store import open_archive
from Daddy.pokemon.archive.claim_store import ClaimStore
from Daddy.pokemon.archive.file_names import MarkKind
from Daddy.pokemon.archive.state_format import Compatibility, Provenance
from Daddy.pokemon.archive.state_selection import ArchiveRules, KeepDecision, StateChoice
from Daddy.pokemon.emulator import PYBOY_VERSION
from Daddy.pokemon.env import TELEMETRY, PokemonRedEnv
from Daddy.pokemon.observation import Observation

_CHOICES = 8
"""States tried for one load before giving up."""


@dataclass(frozen=True)
class ArchiveAccess:
    """An archive and its writer. `root` is the run's archive folder."""

    root: Path
    rules: ArchiveRules
    slot: int | None = None
    release: str = ""


class ArchivedEnv(PokemonRedEnv):
    """See the module. `access` names the archive; all else is `PokemonRedEnv`'s.

    The info of a step has ``archive`` when a state was kept or loaded, with the reason, and
    ``jumped`` when the environment then stands elsewhere; an episode's last has ``loaded``: true
    where a state was loaded in it.
    """

    telemetry_names = (*TELEMETRY, "milestones", "loads", "lived")

    def __init__(self, *args: Any, access: ArchiveAccess, **options: Any) -> None:
        super().__init__(*args, **options)
        self._access, self._rules = access, access.rules
        self._kin = Compatibility(self.rom.sha1, PYBOY_VERSION, self.assists)
        self._archive = open_archive(access.root, self._kin, access.rules)
        self._book = ClaimStore(self._archive.folder)
        self._history = env_history.EnvHistory()
        self._log: claim_format.InputLog | None = None
        self._loads = self._loads_before = 0
        self._passed = set[str]()
        """Keys that this try came to."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode where the game does or from a state, as `where_to_begin` says."""
        start = {"seed": seed} if seed is not None else dict(self.np_random.bit_generator.state)
        observation, info = super().reset(seed=seed, options=options)
        self._log = claim_format.InputLog("", start)
        self._history.parent = ""
        self._history.seed = self._history.seed if seed is None else seed
        self._history.start_try(self._keys(), "")
        self._loads_before = self._loads
        self._passed.clear()
        choice = state_selection.choose_episode_start(
            self._archive.list_states(), self._rules, self._dice
        )
        loaded, reason = self._load(choice)
        return loaded or observation, {**info, "archive": reason}

    def start_step(self, action: np.int64 | int) -> None:
        """As `PokemonRedEnv.begin`, and the key is written down."""
        super().start_step(action)
        if self._log is not None:
            self._log = self._log.append_key(int(action))

    def finish_step(self) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """As `PokemonRedEnv.finish`; then what is new is kept, and perhaps a state is loaded."""
        observation, reward, won, late, info = super().finish_step()
        self._history.step(self.progress.battle > 0)
        said = self._arrive()
        if won or late:
            self._end_try(won)
            info = {**info, "loaded": self._loads > self._loads_before}
        else:
            loaded, reason = self._move()
            if loaded:
                observation, said, info = loaded, reason, {**info, "jumped": True}
        return observation, reward, won, late, {**info, "archive": said} if said else info

    # -- what is kept

    def _arrive(self) -> str:
        """Keep the moment if it holds something new; the decision, or "" where nothing is new."""
        if self.progress.wins:  # a won game attracts no environment
            return ""
        history, now = self._history, self._keys()
        before = history.held
        held = keys.next_key(before, now)
        if held == before:
            return self._recover() if keys.milestones(now) != now else ""
        seen = self._archive.list_states()
        self._pass(keys.key_hash(held))
        if not state_selection.is_new_key(held, before, seen, self._rules):
            history.held, history.hp = held, 0
            return ""
        kept, reason = self._keep(held, state_selection.decide_to_keep(held, seen, self._rules))
        if keys.rank(held) > keys.rank(before):
            self._mark("gain")
        elif not kept:  # the disk refused: the place counts as not reached
            history.held, history.hp = held, 0
            return reason
        history.start_try(held, kept)
        self._passed = {keys.key_hash(held)}
        return reason

    def _pass(self, key: str) -> None:
        """Count a try once at each place, however often it crosses a border."""
        if key not in self._passed:
            self._passed.add(key)
            self._archive.count_visit(key)

    def _recover(self) -> str:
        """Keep the moment if its party is the strongest of its milestones here; or ""."""
        hp = self.progress.hp
        if hp <= self._history.hp:
            return ""
        self._history.hp, held = hp, self._history.held
        verdict = state_selection.decide_to_keep_stronger(
            held, hp, self._archive.list_states(), self._rules
        )
        return self._keep(held, verdict)[1] if verdict.keep else ""

    def _keep(self, held: frozenset[str], verdict: KeepDecision) -> tuple[str, str]:
        """Return the hash of the state that was kept, or "", and the reason.

        The log begins anew at the claim that leads to the state.
        """
        if not verdict.keep:
            return "", verdict.reason
        now = self._history
        claim = None if self._log is None else self._log.make_claim(held)
        provenance = Provenance(
            held=tuple(sorted(held)),
            parent=now.parent,
            origin="played",
            slot=self._access.slot,
            step=now.lived,
            seed=now.seed,
            release=self._access.release,
            rom_sha1=self._kin.rom_sha1,
            pyboy=self._kin.pyboy,
            assists=self.assists,
            hp=self.progress.hp,
            claim="" if claim is None else claim_format.claim_hash(claim),
        )
        self.journal = {}
        try:
            kept = self._archive.keep_state(provenance, super().save_state()).sha256
            if claim is not None:
                self._log = claim_format.InputLog(self._book.keep_claim(claim, kept))
        except OSError as error:
            return "", f"the state could not be kept: {error}"
        return kept, verdict.reason

    # -- what is loaded

    def _move(self) -> tuple[Observation | None, str]:
        """Perhaps go on elsewhere, in a step that looks at the archive."""
        over = state_selection.is_try_over(self._history, self._rules)
        if not over and (self._history.lived - 1) % self._rules.look_every:
            return None, ""
        if over:
            self._mark("dry")
        seen, rules = self._archive.list_states(), self._rules
        loaded, reason = self._load(
            state_selection.choose_state_to_load(self._history, seen, rules, self._dice)
        )
        if loaded is None and over:
            self._history.restart_try()
        return loaded, reason

    def _load(self, choice: StateChoice) -> tuple[Observation | None, str]:
        """Go on in the chosen state, or in another with as many milestones if it cannot be used."""
        if choice.entry is None:
            return None, choice.reason
        before, log, entry = self.save_state(), self._log, choice.entry
        reason = ""
        for _ in range(_CHOICES):
            try:
                provenance, state = self._archive.read_state(entry)
                observation = self.adopt_game(state)
            except FileError as error:
                reason = error.message
            except RomError as error:
                reason = error.message
                self._archive.exclude_state(entry, reason)
                self.load_state(before)  # half of a state may be in the emulator
                self._log = log
            else:
                self._loads += 1
                self._history.start_try(
                    keys.next_key(frozenset(provenance.held), self._keys()), entry.sha256
                )
                self._history.followed = max(self._history.followed, self._history.rank)
                self._log = claim_format.InputLog(provenance.claim) if provenance.claim else None
                self._passed.clear()
                self._pass(entry.key)
                return observation, choice.reason
            other = state_selection.choose_substitute(
                entry, self._archive.list_states(), self._dice
            )
            if other is None:
                break
            entry = other
        return None, f"{choice.reason}, but {reason}"

    def _end_try(self, won: bool) -> None:
        """End the try with its episode; a try that had hardly begun says nothing of the state."""
        if won:
            self._mark("gain")
        elif 2 * self._history.idle_steps >= min(self.episode_steps, self._rules.patience):
            self._mark("dry")
        self._history.start_try(self._history.held, "")

    def _mark(self, kind: MarkKind) -> None:
        if self._history.tried:
            with suppress(OSError):
                self._archive.mark_try(self._history.tried, kind)

    # -- what travels

    def current_claim(self) -> claim_format.Claim | None:
        """The way from the last claim to this moment, for another machine to play again."""
        return None if self._log is None else self._log.make_claim(self._history.held)

    def save_state(self) -> bytes:
        """As `PokemonRedEnv.save_state`, with the history and the keys since the last claim."""
        pressed = {} if self._log is None else {"log": claim_format.log_facts(self._log)}
        self.journal = {**self._history.to_facts(), **pressed}
        return super().save_state()

    def load_state(self, data: bytes) -> Observation:
        """As `PokemonRedEnv.load_state`; a state saved without an archive begins a new history."""
        observation = super().load_state(data)
        facts = dict(self.journal)
        self._log = claim_format.input_log_from(facts.pop("log", None))
        self._history = env_history.history_from(facts)
        return observation

    def telemetry(self) -> tuple[float, ...]:
        """State of the episode: one number for each of `telemetry_names`."""
        now = self._history
        return (*super().telemetry(), now.rank, self._loads, now.lived)

    def _keys(self) -> frozenset[str]:
        return story_milestones.archive_key(self.progress, self.rom.real, self._rules.square)

    def _dice(self) -> float:
        return float(self.np_random.random())
