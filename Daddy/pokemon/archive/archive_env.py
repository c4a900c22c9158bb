"""Adds an archive to `PokemonRedEnv`: saves states at new milestones, loads other learners' states.

Loading a state pays no reward and ends no episode; the step before it keeps its reward. An error of
the archive or of its disk loses a state at most; the environment plays on.
"""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from Daddy.core.errors import FileError, RomError
from Daddy.pokemon import story_milestones
from Daddy.pokemon.archive import archive_decisions as selection
from Daddy.pokemon.archive import claim_format, env_archive_progress
from Daddy.pokemon.archive import state_keys as keys
from Daddy.pokemon.archive.archive_decisions import ArchiveRules, KeepDecision, StateChoice
from Daddy.pokemon.archive.archive_store import open_archive
from Daddy.pokemon.archive.file_names import MarkKind
from Daddy.pokemon.archive.state_claims import ClaimStore
from Daddy.pokemon.archive.state_format import Compatibility, Provenance
from Daddy.pokemon.emulator import PYBOY_VERSION
from Daddy.pokemon.env import TELEMETRY, PokemonRedEnv
from Daddy.pokemon.observation import Observation

_CHOICES = 8
"""States that one load tries before it gives up."""


@dataclass(frozen=True)
class ArchiveAccess:
    """Names an archive and its writer: `root` is the run's archive folder, `slot` the job's."""

    root: Path
    rules: ArchiveRules
    slot: int | None = None
    release: str = ""


class ArchivedEnv(PokemonRedEnv):
    """Plays the game, and saves to and loads from the archive that `access` names.

    A step's info has ``archive``, the reason, when a state was kept or loaded, and ``jumped`` when
    one was loaded; an episode's last info has ``loaded``: true if one was loaded in the episode.
    """

    telemetry_names = (*TELEMETRY, "milestones", "loads", "lived")

    def __init__(self, *args: Any, access: ArchiveAccess, **options: Any) -> None:
        super().__init__(*args, **options)
        self._access, self._rules = access, access.rules
        self._compatibility = Compatibility(self.rom.sha1, PYBOY_VERSION, self.assists)
        self._archive = open_archive(access.root, self._compatibility, access.rules)
        self._claims = ClaimStore(self._archive.folder)
        self._history = env_archive_progress.EnvHistory()
        self._log: claim_format.InputLog | None = None
        self._loads = self._episode_loads = 0
        self._visited_keys = set[str]()
        """Keys (hashes) that the environment reached since its last new key or load."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode at the game's start, or in a state chosen by `choose_episode_start`."""
        start = {"seed": seed} if seed is not None else dict(self.np_random.bit_generator.state)
        observation, info = super().reset(seed=seed, options=options)
        self._log = claim_format.InputLog("", start)
        self._history.parent = ""
        self._history.seed = self._history.seed if seed is None else seed
        self._history.start_try(self._keys(), "")
        self._episode_loads = self._loads
        self._visited_keys.clear()
        catalogue = self._archive.list_states()
        choice = selection.choose_episode_start(catalogue, self._rules, self._random)
        loaded, reason = self._load(choice)
        return loaded or observation, {**info, "archive": reason}

    def start_step(self, action: np.int64 | int) -> None:
        """Do `PokemonRedEnv.start_step`, and append the action to the log of inputs."""
        super().start_step(action)
        if self._log is not None:
            self._log = self._log.append_key(int(action))

    def finish_step(self) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Do `PokemonRedEnv.finish_step`; then archive the state if new, or load another."""
        observation, reward, terminated, truncated, info = super().finish_step()
        self._history.step(self.progress.battle > 0)
        reason = self._consider_keeping()
        if terminated or truncated:
            self._end_try(terminated)
            info = {**info, "loaded": self._loads > self._episode_loads}
        else:
            loaded, load_reason = self._consider_load()
            if loaded:
                observation, reason, info = loaded, load_reason, {**info, "jumped": True}
        info = {**info, "archive": reason} if reason else info
        return observation, reward, terminated, truncated, info

    # -- keeping states

    def _consider_keeping(self) -> str:
        """Archive the state if its key is new; return the decision's reason, or "" if not new."""
        if self.progress.wins:  # no environment should load a game that is over
            return ""
        history, now = self._history, self._keys()
        before = history.held
        held = keys.next_key(before, now)
        if held == before:
            return self._keep_stronger() if keys.milestones(now) != now else ""
        catalogue = self._archive.list_states()
        self._count_visit(keys.key_hash(held))
        if not selection.is_new_key(held, before, catalogue, self._rules):
            history.held, history.hp = held, 0
            return ""
        decision = selection.decide_to_keep(held, catalogue, self._rules)
        kept_hash, reason = self._keep(held, decision)
        if keys.rank(held) > keys.rank(before):
            self._mark("gain")
        elif not kept_hash:  # the disk failed: the place counts as not reached
            history.held, history.hp = held, 0
            return reason
        history.start_try(held, kept_hash)
        self._visited_keys = {keys.key_hash(held)}
        return reason

    def _count_visit(self, key: str) -> None:
        """Count a visit of `key`, unless a visit was counted since the last new key or load."""
        if key not in self._visited_keys:
            self._visited_keys.add(key)
            self._archive.count_visit(key)

    def _keep_stronger(self) -> str:
        """Archive the state if it has 10 % more HP than its key's states; return the reason."""
        hp = self.progress.hp
        if hp <= self._history.hp:
            return ""
        self._history.hp, held = hp, self._history.held
        catalogue = self._archive.list_states()
        decision = selection.decide_to_keep_stronger(held, hp, catalogue, self._rules)
        return self._keep(held, decision)[1] if decision.keep else ""

    def _keep(self, held: frozenset[str], decision: KeepDecision) -> tuple[str, str]:
        """Archive the state if `decision.keep`; return its hash ("": not archived) and a reason."""
        if not decision.keep:
            return "", decision.reason
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
            rom_sha1=self._compatibility.rom_sha1,
            pyboy=self._compatibility.pyboy,
            assists=self.assists,
            hp=self.progress.hp,
            claim="" if claim is None else claim_format.claim_hash(claim),
        )
        self.journal = {}
        try:
            kept_hash = self._archive.keep_state(provenance, super().save_state()).sha256
            if claim is not None:
                self._log = claim_format.InputLog(self._claims.keep_claim(claim, kept_hash))
        except OSError as error:
            return "", f"the state could not be kept: {error}"
        return kept_hash, decision.reason

    # -- loading states

    def _consider_load(self) -> tuple[Observation | None, str]:
        """Load the state that `choose_state_to_load` names, if any, every `look_every` steps."""
        over = selection.is_try_over(self._history, self._rules)
        if not over and (self._history.lived - 1) % self._rules.look_every:
            return None, ""
        if over:
            self._mark("dry")
        catalogue, rules = self._archive.list_states(), self._rules
        choice = selection.choose_state_to_load(self._history, catalogue, rules, self._random)
        loaded, reason = self._load(choice)
        if loaded is None and over:
            self._history.restart_try()
        return loaded, reason

    def _load(self, choice: StateChoice) -> tuple[Observation | None, str]:
        """Load the chosen state, or, if that fails, another state with as many milestones."""
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
                self.load_state(before)  # the failed load may have changed the emulator
                self._log = log
            else:
                self._loads += 1
                key = keys.next_key(frozenset(provenance.held), self._keys())
                self._history.start_try(key, entry.sha256)
                self._history.followed = max(self._history.followed, self._history.rank)
                self._log = claim_format.InputLog(provenance.claim) if provenance.claim else None
                self._visited_keys.clear()
                self._count_visit(entry.key)
                return observation, choice.reason
            other = selection.choose_substitute(entry, self._archive.list_states(), self._random)
            if other is None:
                break
            entry = other
        return None, f"{choice.reason}, but {reason}"

    def _end_try(self, won: bool) -> None:
        """Mark the state that the try began from (gain or dry), if the try had enough steps."""
        if won:
            self._mark("gain")
        elif 2 * self._history.idle_steps >= min(self.episode_steps, self._rules.patience):
            self._mark("dry")
        self._history.start_try(self._history.held, "")

    def _mark(self, kind: MarkKind) -> None:
        if self._history.tried:
            with suppress(OSError):
                self._archive.mark_try(self._history.tried, kind)

    # -- save states and telemetry

    def save_state(self) -> bytes:
        """Return the state, with the history and the inputs since the last claim, as bytes."""
        pressed = {} if self._log is None else {"log": claim_format.log_facts(self._log)}
        self.journal = {**self._history.history_facts(), **pressed}
        return super().save_state()

    def load_state(self, data: bytes) -> Observation:
        """Do `PokemonRedEnv.load_state`; restore the history too, if it was saved."""
        observation = super().load_state(data)
        facts = dict(self.journal)
        self._log = claim_format.input_log_from(facts.pop("log", None))
        self._history = env_archive_progress.history_from(facts)
        return observation

    def telemetry(self) -> tuple[float, ...]:
        now = self._history
        return (*super().telemetry(), now.rank, self._loads, now.lived)

    def _keys(self) -> frozenset[str]:
        return story_milestones.archive_key(self.progress, self.rom.real, self._rules.square)

    def _random(self) -> float:
        return float(self.np_random.random())
