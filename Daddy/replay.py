"""Recordings for a person: shown again in a window or as a film, verified, made of a run's claims.

Stands below `play`. Only verified play is shown: a second player reads ahead and compares the
digests. A recording holds inputs only, so the game is the person's own, or the cartridge. In the
window every frame is drawn at the game's own speed; faster, as many as sixty a second.
"""

from __future__ import annotations

import argparse
import os
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from Daddy.core.clock import Clock
from Daddy.core.config import load, load_effective
from Daddy.core.errors import DaddyError, FileError, RomError
from Daddy.core.files import read_bounded, write_atomic
from Daddy.core.paths import RunPaths
from Daddy.core.rom import CARTRIDGE_SHA1, ENVIRONMENT_VARIABLE, Rom, load_rom
from Daddy.core.settings import Config
from Daddy.pokemon.emulator import FILM_FRAMES, FRAMES_PER_SECOND, FRAMES_PER_STEP
from Daddy.pokemon.recordings.verifying_player import (
    ReadAhead,
    Report,
    VerifyingPlayer,
    check_game,
    check_start,
    time_text,
)

if TYPE_CHECKING:
    from Daddy.pokemon.inputs.tape import Tape

HELP: Final = (
    "space pauses; [ slower, ] faster; left and right: 10 s back and ahead; N and P: the next "
    "milestone and the one before; Home: from the start; Q leaves"
)
_PACES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_LEAP = round(10 * FRAMES_PER_SECOND)
_BEFORE = round(3 * FRAMES_PER_SECOND)
"""Frames before a milestone at which to begin to look."""
_STILL_S = 1 / 30
_LEAVE = frozenset({"q", "escape"})
_SECONDS_OF_FILM = 30.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}")
"""A start state's, which is no path: a stranger's recording opens no file here."""


@dataclass(frozen=True)
class Opened:
    """A recording, the game to play it in, and the state it begins at ("" bytes: power-on)."""

    tape: Tape
    rom: Rom
    start: bytes


def open_recording(path: Path, args: argparse.Namespace) -> Opened:
    """The recording and its game. FileError for what is none, RomError for another game."""
    from Daddy.pokemon.inputs import tape
    from Daddy.pokemon.rom import cartridge_path, find_rom
    from Daddy.pokemon.starts.start_state import start_state

    found = tape.from_bytes(read_bounded(path.expanduser().resolve(), tape.FILE_LIMIT), str(path))
    ours = args.cartridge or (not args.rom and found.rom_sha1 == CARTRIDGE_SHA1)
    rom = load_rom(cartridge_path() if ours else find_rom(args.rom), args.allow_unknown_rom)
    check_game(found, rom)
    if found.from_power_on:
        return Opened(found, rom, b"")
    if not args.start and not _NAME.fullmatch(found.start_name):
        raise RomError(
            "the recording begins at a state that it has no name for",
            "ask who recorded it for one that begins at power-on, or name the state: --start FILE",
        )
    start = start_state(rom, args.start or found.start_name, None, args.states_dir or "")
    check_start(found, start)
    return Opened(found, rom, start)


# -- verify


def make_verify_parser() -> argparse.ArgumentParser:
    """The command line of verifying."""
    parser = argparse.ArgumentParser(
        prog="play verify", description="Play a recording again, and say what it proves."
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the recording")
    add_game(parser)
    return parser


def add_game(parser: argparse.ArgumentParser) -> None:
    """Flags that say which game a recording is played in."""
    flag = parser.add_argument
    flag("--rom", help="your PokemonRed.gb (default: DADDY_ROM, else the cartridge)")
    flag("--cartridge", action="store_true", help="play in the free cartridge")
    flag("--allow-unknown-rom", action="store_true", help="play a ROM whose SHA-1 is not known")
    flag("--start", metavar="NAME|FILE", help="the state of a recording that needs one")
    flag("--states-dir", metavar="DIR", help="folder of save states, meant by their names")


def verify(argv: Sequence[str]) -> int:
    """`play verify FILE`: 0 verified, 7 another game, pyboy or way, 9 no recording."""
    args = make_verify_parser().parse_args(argv)
    opened = open_recording(args.file, args)
    print(f"{opened.tape.title or args.file.name}, in {opened.rom.name}", flush=True)
    ahead = ReadAhead(opened.rom, opened.tape, opened.start)
    try:
        _verify_all(ahead)
    finally:
        ahead.close()
    print("\n".join(verdict(ahead.report, opened.tape)), flush=True)
    return 0


def _verify_all(ahead: ReadAhead) -> None:
    """Verify to the end, and tell each milestone; RomError where it went another way."""
    known = 0
    while not ahead.over:
        try:
            ahead.advance()
        except DaddyError:
            print(f"verified until {time_text(ahead.report.frames)}, and no further", flush=True)
            raise
        for name, frames in list(ahead.report.reached.items())[known:]:
            print(f"  {time_text(frames):>24s}  {name}", flush=True)
        known = len(ahead.report.reached)


def verdict(report: Report, tape: Tape) -> list[str]:
    """What a verified recording proves, in lines."""
    begins = "power-on" if tape.from_power_on else f"the state {tape.start_name!r}"
    count, cuts = len(report.reached), len(report.cuts)
    played = f"{time_text(report.frames)} from {begins}"
    lines = [
        f"verified: {played}, {count} milestones reached in this order",
        f"moment: {tape.end}",
    ]
    if report.held:
        lines.append(f"held when it began: {', '.join(sorted(report.held))}")
    if report.dice:
        lines.append(
            f"the game's dice were set: {report.dice} bytes written, by which no fact changes"
        )
    if cuts:
        where = ", ".join(time_text(one) for one in report.cuts[:5])
        lines.append(f"it goes back to a moment of its own {cuts} times: {where}")
    if report.writes:
        helps = ", ".join(tape.assists) or "not said which"
        lines.append(
            f"not by buttons alone: {report.writes} bytes of memory were written ({helps})"
        )
    return lines


# -- export


def make_export_parser() -> argparse.ArgumentParser:
    """The command line of exporting."""
    parser = argparse.ArgumentParser(
        prog="play export",
        description="Make a recording of the shortest way to a milestone that a run's archive "
        "knows, from power-on. It holds inputs only: anyone with the game can verify it.",
    )
    flag = parser.add_argument
    flag("--run-dir", type=Path, required=True, metavar="RUN", help="the run's folder")
    flag("--milestone", required=True, metavar="NAME", help="such as beat_brock")
    flag("--out", type=Path, required=True, metavar="FILE", help="the recording to write")
    flag("--rom", help="where the run's game lies on this machine, if elsewhere")
    flag("--config", type=Path, metavar="FILE", help="of a run that was started by hand with one")
    return parser


def export(argv: Sequence[str]) -> int:
    """`play export`: 0 written, 2 no such milestone, 7 ROM, 9 no archive, or nobody reached it."""
    from Daddy.background.background_task import open_archive
    from Daddy.pokemon.archive.claim_replay import record

    args = make_export_parser().parse_args(argv)
    run = RunPaths(args.run_dir.expanduser().resolve())
    if not run.archive.is_dir():
        raise FileError(
            f"{run.root} has no archive", "name a run's folder; it keeps states with archive.mode"
        )
    config = _config_of(run, args)
    archive, game = open_archive(config)
    real = load_rom(game.rom, config.training.allow_unknown_rom).real
    data = record(archive, game, args.milestone, real)
    write_atomic(args.out.absolute(), data)
    print(f"wrote {args.out}: {len(data):,} bytes; python -m Daddy.play verify {args.out}")
    return 0


def _config_of(run: RunPaths, args: argparse.Namespace) -> Config:
    """A copy's own, the newest release's, or of a run started by hand what the flags say."""
    releases = sorted(run.releases.glob("*/config.json"), key=lambda one: one.stat().st_mtime)
    found = [one for one in (run.config, *reversed(releases)) if one.is_file()]
    by_hand = args.config or not found
    config = load(args.config, {}, os.environ) if by_hand else load_effective(found[0])
    known = config.training.rom or (os.environ.get(ENVIRONMENT_VARIABLE) if by_hand else None)
    rom = args.rom or known
    path = str(Path(rom).expanduser().resolve()) if rom else None
    training = config.training.model_copy(update={"rom": path})
    return config.model_copy(update={"run_dir": str(run.root), "training": training})


# -- show


def show(args: argparse.Namespace, clock: Clock) -> int:
    """`play --recording`: in a window, or as a film of its last seconds, or from --from on."""
    path: Path | None = args.gif or args.mp4
    if path is not None:
        from Daddy.streaming.viewer.clips import check

        check(path)
    opened = open_recording(args.recording, args)
    if path is not None:
        return _on_film(args, opened, path)
    return _in_window(args, opened, clock)


def _in_window(args: argparse.Namespace, opened: Opened, clock: Clock) -> int:
    from Daddy.pokemon.inputs.tape import beginning
    from Daddy.streaming.viewer.window import Handheld

    first = beginning(opened.tape) if args.first is None else args.first * FRAMES_PER_STEP
    title = f"Daddy: {opened.tape.title or args.recording.name}"
    window = Handheld(title)
    print(f"{title}, in {opened.rom.name}\n{HELP}", flush=True)
    ahead = ReadAhead(opened.rom, opened.tape, opened.start)
    player = VerifyingPlayer(opened.rom, opened.tape, opened.start)
    try:
        ahead.start()
        shown = RecordingWindow(ahead, player, window, clock, args.speed)
        shown.run(first, args.seconds or float("inf"))
    finally:
        window.close()
        ahead.close()
        player.close()
    if ahead.failure is not None:
        raise ahead.failure
    return 0


def _on_film(args: argparse.Namespace, opened: Opened, path: Path) -> int:
    """Verified first, then filmed: an MP4 has all frames, a GIF every fourth."""
    from Daddy.streaming.viewer.clips import save_film

    every = 1 if path.suffix.lower() == ".mp4" else FILM_FRAMES
    wanted = round((args.seconds or _SECONDS_OF_FILM) * FRAMES_PER_SECOND)
    ahead = ReadAhead(opened.rom, opened.tape, opened.start)
    player = VerifyingPlayer(opened.rom, opened.tape, opened.start)
    pictures: list[bytes] = []
    try:
        _verify_all(ahead)
        last = ahead.report.frames - wanted
        first = max(0, last if args.first is None else args.first * FRAMES_PER_STEP)
        ahead.send(player, first)
        while not player.over and player.frames < first:
            player.step()
        first = player.frames
        player.watch(lambda: pictures.append(player.picture()), every)
        while not player.over and player.frames < first + wanted:
            player.step()
    finally:
        ahead.close()
        player.close()
    save_film(path, pictures, FRAMES_PER_SECOND / every * args.speed)
    length = len(pictures) * every / FRAMES_PER_SECOND
    print(f"wrote {path}: {length:.1f} s of the game from {time_text(first)}, verified", flush=True)
    return 0


class Window(Protocol):
    """A window such as `streaming.viewer.window.Handheld`."""

    closed: bool
    caption: str

    def show(self, pixels: bytes) -> list[str]: ...


class RecordingWindow:
    """A player, one that reads ahead of it, and a window; pace, pause and position."""

    def __init__(
        self,
        ahead: ReadAhead,
        player: VerifyingPlayer,
        window: Window,
        clock: Clock,
        pace: float = 1.0,
    ) -> None:
        self._ahead, self._player, self._window, self._clock = ahead, player, window, clock
        self._title, self.pace, self.paused = window.caption, pace, False
        self._goal: int | None = None
        self._seen = 0
        self._due = clock.monotonic()
        self._never = threading.Event()

    def run(self, first: int, seconds: float) -> None:
        """Show from a frame on until the window is closed, or for so many seconds of the game.

        Where verifying failed, or all was shown, the last picture stays.
        """
        self._goal = first
        most = seconds * FRAMES_PER_SECOND
        while not self._window.closed and self._seen < most:
            if self._goal is not None and not self._is_early(self._goal):
                self._go(self._goal)
            elif self._goal is not None or self._player.frames >= self._ahead.report.frames:
                self._stay()
            else:
                self._player.step()

    def _is_early(self, goal: int) -> bool:
        """Whether the ahead has not been there, and still may come there."""
        ended = self._ahead.over or self._ahead.failure is not None
        return goal > self._ahead.report.frames and not ended

    def _go(self, goal: int) -> None:
        """To the operation that ends at a frame or just after it, unseen."""
        self._player.watch(None, 1)
        goal = max(0, min(goal, self._ahead.report.frames))
        if not self._player.frames <= goal < self._player.frames + _LEAP:
            self._ahead.send(self._player, goal)
        while self._player.frames < goal:
            self._player.step()
        self._goal, self._due = None, self._clock.monotonic()
        self._player.watch(self._frame, 1)

    def _frame(self) -> None:
        """After each frame: draw it when it is due, and wait; not at all on the way out."""
        if self._window.closed or self._goal is not None:
            return
        self._seen += 1
        if self._seen % max(1, round(self.pace)) == 0:
            self._draw("")
        while self.paused and self._goal is None and not self._window.closed:
            self._stay()
        pause = 1 / FRAMES_PER_SECOND / self.pace
        self._due = max(self._due + pause, self._clock.monotonic())
        self._clock.wait(self._never, self._due - self._clock.monotonic())

    def _stay(self) -> None:
        """The picture that stands, while nothing can or shall be played."""
        if self.paused:
            why = "paused"
        elif self._ahead.failure is not None:
            why = "not verified from here on"
        else:
            why = "the end" if self._ahead.over and self._goal is None else "verifying"
        self._draw(why)
        self._clock.wait(self._never, _STILL_S)

    def _draw(self, why: str) -> None:
        last = [
            name for name, at in self._ahead.report.reached.items() if at <= self._player.frames
        ]
        pace = "" if self.pace == 1 else f"{self.pace:g} x"
        said = (self._title, time_text(self._player.frames), *last[-1:], pace, why)
        self._window.caption = "  ·  ".join(filter(None, said))
        for key in self._window.show(self._player.picture()):
            self._strike(key)

    def _strike(self, key: str) -> None:
        """Do what a key means."""
        here = self._player.frames
        if key in _LEAVE:
            self._window.closed = True
        elif key == "space":
            self.paused = not self.paused
        elif key == "[":
            self.pace = max((one for one in _PACES if one < self.pace), default=self.pace)
        elif key == "]":
            self.pace = min((one for one in _PACES if one > self.pace), default=self.pace)
        elif key in ("left", "right", "home"):
            self._goal = {"left": max(0, here - _LEAP), "right": here + _LEAP, "home": 0}[key]
        elif key in ("n", "p"):
            self._goal = self._milestone(here, ahead=key == "n")

    def _milestone(self, here: int, *, ahead: bool) -> int | None:
        """Shortly before the next milestone, or the one before; None where there is none."""
        places = [max(0, at - _BEFORE) for at in self._ahead.report.reached.values()]
        if ahead:
            return min((at for at in places if at > here), default=None)
        return max((at for at in places if at < here - _BEFORE), default=None)


VERBS: Final[dict[str, Callable[[Sequence[str]], int]]] = {"verify": verify, "export": export}
"""Of `play`, by what is typed."""
