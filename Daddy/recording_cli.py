"""Recordings for a person: shown again in a window or as a film, verified, made of a run's claims.

Stands below `play`. Only verified play is shown: a second player reads ahead and compares the
digests. A recording holds inputs only, so the game is the person's own, or the cartridge. In the
window every frame is drawn at the game's own speed; faster, as many as sixty a second.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from Daddy.core.atomic_files import read_bounded, write_atomic
from Daddy.core.clock import Clock
from Daddy.core.errors import DaddyError, FileError, RomError
from Daddy.core.load_config import load_config, load_release_config
from Daddy.core.rom_identity import CARTRIDGE_SHA1, ENVIRONMENT_VARIABLE, Rom, load_rom
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import Config
from Daddy.playback_setup import Pacer, add_game_flags
from Daddy.pokemon.emulator import FRAMES_PER_PICTURE, FRAMES_PER_SECOND, FRAMES_PER_STEP
from Daddy.pokemon.inputs import recording_format
from Daddy.pokemon.inputs.recording_format import Recording
from Daddy.pokemon.recordings.verifying_player import (
    ReadAhead,
    VerificationReport,
    VerifyingPlayer,
    check_recorded_game,
    format_time,
)

if TYPE_CHECKING:
    from Daddy.streaming.viewer.pygame_window import GameWindow

HELP: Final = (
    "space pauses; [ slower, ] faster; left and right: 10 s back and ahead; N and P: the next "
    "milestone and the one before; Home: from the start; Q leaves"
)
_PACES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_LEAP = round(10 * FRAMES_PER_SECOND)
_BEFORE = round(3 * FRAMES_PER_SECOND)
"""Frames before a milestone at which to begin to look."""
_STILL_S = 1 / 30
_SECONDS_OF_FILM = 30.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}")
"""A start state's, which is no path: a stranger's recording opens no file here."""


class OpenedRecording(NamedTuple):
    """The game to play in, the recording, and the state it begins at ("" bytes: power-on)."""

    rom: Rom
    tape: Recording
    start: bytes


def open_recording(path: Path, args: argparse.Namespace) -> OpenedRecording:
    """The recording and its game. FileError for what is none, RomError for another game."""
    from Daddy.pokemon.find_rom import cartridge_path, find_rom
    from Daddy.pokemon.starts.start_state import start_state

    found = recording_format.decode_recording(
        read_bounded(path.expanduser().resolve(), recording_format.FILE_LIMIT), str(path)
    )
    ours = args.cartridge or (not args.rom and found.rom_sha1 == CARTRIDGE_SHA1)
    rom = load_rom(cartridge_path() if ours else find_rom(args.rom), args.allow_unknown_rom)
    check_recorded_game(found, rom)
    if found.from_power_on:
        return OpenedRecording(rom, found, b"")
    if not args.start and not _NAME.fullmatch(found.start_name):
        raise RomError(
            "the recording begins at a state that it has no name for",
            "ask who recorded it for one that begins at power-on, or name the state: --start FILE",
        )
    start = start_state(rom, args.start or found.start_name)
    return OpenedRecording(rom, found, start)


# -- verify


def make_verify_parser() -> argparse.ArgumentParser:
    """The command line of verifying."""
    parser = argparse.ArgumentParser(
        prog="play verify", description="Play a recording again, and say what it proves."
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the recording")
    add_game_flags(parser)
    return parser


def verify(argv: Sequence[str]) -> int:
    """`play verify FILE`: 0 verified, 7 another game, pyboy or way, 9 no recording."""
    args = make_verify_parser().parse_args(argv)
    opened = open_recording(args.file, args)
    print(f"{opened.tape.title or args.file.name}, in {opened.rom.name}", flush=True)
    with closing(ReadAhead(*opened)) as ahead:
        _verify_all(ahead)
        print("\n".join(describe_report(ahead.report, opened.tape)), flush=True)
    return 0


def _verify_all(ahead: ReadAhead) -> None:
    """Verify to the end, and tell each milestone; RomError where it went another way."""
    known = 0
    while not ahead.finished:
        try:
            ahead.verify_next_part()
        except DaddyError:
            print(f"verified until {format_time(ahead.report.frames)}, and no further", flush=True)
            raise
        for name, frames in list(ahead.report.reached.items())[known:]:
            print(f"  {format_time(frames):>24s}  {name}", flush=True)
        known = len(ahead.report.reached)


def describe_report(report: VerificationReport, tape: Recording) -> list[str]:
    """What a verified recording proves, in lines."""
    begins = "power-on" if tape.from_power_on else f"the state {tape.start_name!r}"
    count, cuts = len(report.reached), len(report.cuts)
    played = f"{format_time(report.frames)} from {begins}"
    lines = [
        f"verified: {played}, {count} milestones reached in this order",
        f"moment: {tape.end_id}",
    ]
    if report.held:
        lines.append(f"held when it began: {', '.join(sorted(report.held))}")
    if report.dice:
        lines.append(
            f"the game's dice were set: {report.dice} bytes written, by which no fact changes"
        )
    if cuts:
        where = ", ".join(format_time(one) for one in report.cuts[:5])
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
    from Daddy.pokemon.archive.claim_replay import record_milestone

    args = make_export_parser().parse_args(argv)
    run = RunPaths(args.run_dir.expanduser().resolve())
    if not run.archive.is_dir():
        raise FileError(
            f"{run.root} has no archive", "name a run's folder; it keeps states with archive.mode"
        )
    config = _config_of(run, args)
    archive, game = open_archive(config)
    real = load_rom(game.rom, config.training.allow_unknown_rom).real
    data = record_milestone(archive, game, args.milestone, real)
    write_atomic(args.out.absolute(), data)
    print(f"wrote {args.out}: {len(data):,} bytes; python -m Daddy.play verify {args.out}")
    return 0


def _config_of(run: RunPaths, args: argparse.Namespace) -> Config:
    """A copy's own, the newest release's, or of a run started by hand what the flags say."""
    releases = sorted(run.releases.glob("*/config.json"), key=lambda one: one.stat().st_mtime)
    found = [one for one in (run.config, *reversed(releases)) if one.is_file()]
    by_hand = args.config or not found
    config = load_config(args.config, {}, os.environ) if by_hand else load_release_config(found[0])
    known = config.training.rom or (os.environ.get(ENVIRONMENT_VARIABLE) if by_hand else None)
    rom = args.rom or known
    path = str(Path(rom).expanduser().resolve()) if rom else None
    training = config.training.model_copy(update={"rom": path})
    return config.model_copy(update={"run_dir": str(run.root), "training": training})


# -- show


def show_recording(args: argparse.Namespace, clock: Clock) -> int:
    """`play --recording`: in a window, or as a film of its last seconds, or from --from on."""
    path: Path | None = args.gif or args.mp4
    opened = open_recording(args.recording, args)
    with closing(ReadAhead(*opened)) as ahead, closing(VerifyingPlayer(*opened)) as player:
        if path is None:
            _in_window(args, opened, ahead, player, clock)
        else:
            _on_film(args, ahead, player, path)
    return 0


def _in_window(
    args: argparse.Namespace, opened: OpenedRecording, ahead: ReadAhead, player: VerifyingPlayer,
    clock: Clock,
) -> None:  # fmt: skip
    from Daddy.streaming.viewer.pygame_window import GameWindow

    begins = recording_format.frames_before_play(opened.tape)
    first = begins if args.first is None else args.first * FRAMES_PER_STEP
    title = f"Daddy: {opened.tape.title or args.recording.name}"
    with closing(GameWindow(title)) as window:
        print(f"{title}, in {opened.rom.name}\n{HELP}", flush=True)
        ahead.start()
        shown = RecordingWindow(ahead, player, window, clock, args.speed)
        shown.play(first, args.seconds or float("inf"))
    if ahead.failure is not None:
        raise ahead.failure


def _on_film(
    args: argparse.Namespace, ahead: ReadAhead, player: VerifyingPlayer, path: Path
) -> None:
    """Verified first, then filmed: an MP4 has all frames, a GIF every fourth."""
    from Daddy.streaming.viewer.clip_writer import write_video

    every = 1 if path.suffix.lower() == ".mp4" else FRAMES_PER_PICTURE
    wanted = round((args.seconds or _SECONDS_OF_FILM) * FRAMES_PER_SECOND)
    _verify_all(ahead)
    last = ahead.report.frames - wanted
    goal = max(0, last if args.first is None else args.first * FRAMES_PER_STEP)
    ahead.seek_player(player, goal)
    first = player.play_to(goal)
    pictures: list[bytes] = []
    player.set_watcher(lambda: pictures.append(player.packed_screen()), every)
    player.play_to(first + wanted)
    write_video(path, pictures, FRAMES_PER_SECOND / every * args.speed)
    length = len(pictures) * every / FRAMES_PER_SECOND
    print(
        f"wrote {path}: {length:.1f} s of the game from {format_time(first)}, verified", flush=True
    )


class RecordingWindow:
    """A player, one that reads ahead of it, and a window; pace, pause and position."""

    def __init__(
        self,
        ahead: ReadAhead,
        player: VerifyingPlayer,
        window: GameWindow,
        clock: Clock,
        pace: float = 1.0,
    ) -> None:
        self._ahead, self._player, self._window = ahead, player, window
        self._title, self.pace, self.paused = window.caption, pace, False
        self._goal: int | None = None
        self._seen = 0
        self._pacer = Pacer(clock)

    def play(self, first: int, seconds: float) -> None:
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
        """True while reading ahead has not come to a frame, and still may."""
        ended = self._ahead.finished or self._ahead.failure is not None
        return goal > self._ahead.report.frames and not ended

    def _go(self, goal: int) -> None:
        """Go to the operation that ends at a frame or just after it, unseen."""
        self._player.set_watcher(None, 1)
        goal = max(0, min(goal, self._ahead.report.frames))
        if not self._player.frames <= goal < self._player.frames + _LEAP:
            self._ahead.seek_player(self._player, goal)
        self._player.play_to(goal)
        self._goal = None
        self._pacer.restart()
        self._player.set_watcher(self._frame, 1)

    def _frame(self) -> None:
        """After each frame: draw it when it is due, and wait; not at all on the way out."""
        if self._window.closed or self._goal is not None:
            return
        self._seen += 1
        if self._seen % max(1, round(self.pace)) == 0:
            self._draw("")
        while self.paused and self._goal is None and not self._window.closed:
            self._stay()
        self._pacer.wait(1 / FRAMES_PER_SECOND / self.pace)

    def _stay(self) -> None:
        """Draw the picture that stands, while nothing can or shall be played."""
        if self.paused:
            reason = "paused"
        elif self._ahead.failure is not None:
            reason = "not verified from here on"
        else:
            reason = "the end" if self._ahead.finished and self._goal is None else "verifying"
        self._draw(reason)
        self._pacer.wait(_STILL_S)

    def _draw(self, reason: str) -> None:
        here = self._player.frames
        last = [name for name, at in self._ahead.report.reached.items() if at <= here]
        pace = "" if self.pace == 1 else f"{self.pace:g} x"
        said = (self._title, format_time(here), *last[-1:], pace, reason)
        self._window.caption = "  ·  ".join(filter(None, said))
        for key in self._window.show_picture(self._player.packed_screen()):
            self._press(key)

    def _press(self, key: str) -> None:
        """Do the key's action."""
        here = self._player.frames
        looks = [max(0, at - _BEFORE) for at in self._ahead.report.reached.values()]
        goals = {
            "left": max(0, here - _LEAP),
            "right": here + _LEAP,
            "home": 0,
            "n": min((at for at in looks if at > here), default=None),
            "p": max((at for at in looks if at < here - _BEFORE), default=None),
        }
        if key in goals:
            self._goal = goals[key]
        elif key in ("q", "escape"):
            self._window.closed = True
        elif key == "space":
            self.paused = not self.paused
        elif key == "[":
            self.pace = max((pace for pace in _PACES if pace < self.pace), default=self.pace)
        elif key == "]":
            self.pace = min((pace for pace in _PACES if pace > self.pace), default=self.pace)


VERBS: Final[dict[str, Callable[[Sequence[str]], int]]] = {"verify": verify, "export": export}
"""Of `play`, by what is typed."""
