"""Shows and verifies recordings, and exports a run's path to a milestone as a recording.

Part of `play`. Only verified frames are shown: a second player runs ahead, comparing digests. A
recording holds inputs only, so the game is the person's own or the cartridge. The window draws
every frame at the game's own speed, and sixty a second at higher speeds.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from Daddy.core.arguments import ArgumentParser
from Daddy.core.atomic_files import read_bounded, write_atomic
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import DaddyError, FileError, RomError
from Daddy.core.load_config import load_config, load_release_config
from Daddy.core.rom_identity import CARTRIDGE_SHA1, ENVIRONMENT_VARIABLE, Rom, load_rom
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import Config
from Daddy.playback_setup import Pacer, ProgressLines, add_game_flags
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
    "milestone and the last; Home: back to the start; Q quits"
)
_SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_JUMP_FRAMES = round(10 * FRAMES_PER_SECOND)
_LEAD_FRAMES = round(3 * FRAMES_PER_SECOND)
"""Frames before a milestone at which N and P begin to play."""
_IDLE_S = 1 / 30
_VIDEO_S = 30.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}")
"""A valid name of a start state. A path is refused, so that a recording cannot open our files."""


class OpenedRecording(NamedTuple):
    """Holds a game, a recording of it, and the recording's start state (empty: power-on)."""

    rom: Rom
    recording: Recording
    start: bytes


def open_recording(path: Path, args: argparse.Namespace) -> OpenedRecording:
    """Load a recording, its game and its start state. FileError: bad file; RomError: other game."""
    from Daddy.pokemon.find_rom import cartridge_path, find_rom
    from Daddy.pokemon.starts.find_start_state import start_state

    recording = recording_format.decode_recording(
        read_bounded(path.expanduser().resolve(), recording_format.FILE_LIMIT), str(path)
    )
    ours = args.cartridge or (not args.rom and recording.rom_sha1 == CARTRIDGE_SHA1)
    rom = load_rom(cartridge_path() if ours else find_rom(args.rom), args.allow_unknown_rom)
    check_recorded_game(recording, rom)
    if recording.from_power_on:
        return OpenedRecording(rom, recording, b"")
    if not args.start and not _NAME.fullmatch(recording.start_name):
        raise RomError(
            "the recording begins at a state that it does not name",
            "ask its author for a recording from power-on, or name the state: --start FILE",
        )
    start = start_state(rom, args.start or recording.start_name)
    return OpenedRecording(rom, recording, start)


# -- verify


def make_verify_parser() -> argparse.ArgumentParser:
    """Return the parser of `play verify`."""
    parser = ArgumentParser(
        prog="play verify",
        description="Replay a recording, check the game's memory, and print the milestones.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="recording to verify")
    add_game_flags(parser)
    return parser


def verify(argv: Sequence[str]) -> int:
    """Run `play verify FILE`; return 0 verified, 7 other game or memory, 9 invalid file."""
    args = make_verify_parser().parse_args(argv)
    opened = open_recording(args.file, args)
    print(f"{opened.recording.title or args.file.name}, in {opened.rom.name}", flush=True)
    with closing(ReadAhead(*opened)) as ahead:
        _verify_all(ahead, SystemClock())
        print("\n".join(describe_report(ahead.report, opened.recording)), flush=True)
    return 0


def _verify_all(ahead: ReadAhead, clock: Clock) -> None:
    """Verify a recording to its end, and print its milestones; RomError if memory differs."""
    printed, progress = 0, ProgressLines(clock)
    while not ahead.finished:
        try:
            ahead.verify_next_part()
        except DaddyError:
            print(f"verified until {format_time(ahead.report.frames)}, and not beyond", flush=True)
            raise
        progress.show(f"verified {format_time(ahead.report.frames)} of the game")
        for name, frames in list(ahead.report.reached.items())[printed:]:
            print(f"  {format_time(frames):>24s}  {name}", flush=True)
        printed = len(ahead.report.reached)


def describe_report(report: VerificationReport, recording: Recording) -> list[str]:
    """Return the results of a verified recording as lines of text."""
    begins = "power-on" if recording.from_power_on else f"the state {recording.start_name!r}"
    count, cuts = len(report.reached), len(report.cuts)
    played = f"{format_time(report.frames)} from {begins}"
    lines = [
        f"verified: {played}, {count} milestones reached in this order",
        f"end: {recording.end_id}",
    ]
    if report.held:
        lines.append(f"reached before its start: {', '.join(sorted(report.held))}")
    if report.dice:
        lines.append(f"random numbers of the game were set: {report.dice} bytes of memory")
    if cuts:
        times = ", ".join(format_time(frames) for frames in report.cuts[:5])
        lines.append(f"it returns to an earlier state of its own {cuts} times: {times}")
    if report.writes:
        assists = ", ".join(recording.assists) or "unknown assists"
        lines.append(f"not by buttons alone: {assists} wrote {report.writes} bytes of memory")
    return lines


# -- export


def make_export_parser() -> argparse.ArgumentParser:
    """Return the parser of `play export`."""
    parser = ArgumentParser(
        prog="play export",
        description="Export the shortest path from power-on to a milestone in a run's archive as a "
        "recording. A recording holds inputs only: anyone with the game can verify it.",
    )
    flag = parser.add_argument
    flag("--run-dir", type=Path, required=True, metavar="RUN", help="run directory")
    flag("--milestone", required=True, metavar="NAME", help="name of a milestone (beat_brock)")
    flag("--out", type=Path, required=True, metavar="FILE", help="file to write the recording to")
    flag("--rom", help="path of the run's game on this machine (the path in its configuration)")
    flag(
        "--config", type=Path, metavar="FILE", help="config file of a run that was started by hand"
    )
    return parser


def export(argv: Sequence[str]) -> int:
    """Run `play export`; return 0 written, 2 unknown milestone, 7 ROM, 9 no archive or claim."""
    from Daddy.background.background_task import open_archive
    from Daddy.pokemon.archive.claim_replay import record_milestone

    args = make_export_parser().parse_args(argv)
    run = RunPaths(args.run_dir.expanduser().resolve())
    if not run.archive.is_dir():
        raise FileError(
            f"{run.root} has no archive", "name a run directory; archive.mode turns the archive on"
        )
    config = _config_of(run, args)
    archive, game = open_archive(config)
    real = load_rom(game.rom, config.training.allow_unknown_rom).real
    data = record_milestone(archive, game, args.milestone, real)
    write_atomic(args.out.absolute(), data)
    print(f"wrote {args.out}: {len(data):,} bytes; python -m Daddy.play verify {args.out}")
    return 0


def _config_of(run: RunPaths, args: argparse.Namespace) -> Config:
    """Return the configuration of --config, the run, its newest release or the defaults."""
    releases = sorted(run.releases.glob("*/config.json"), key=lambda path: path.stat().st_mtime)
    files = [path for path in (run.config, *reversed(releases)) if path.is_file()]
    by_hand = args.config or not files
    config = load_config(args.config, {}, os.environ) if by_hand else load_release_config(files[0])
    variable = os.environ.get(ENVIRONMENT_VARIABLE) if by_hand else None
    rom = args.rom or config.training.rom or variable
    path = str(Path(rom).expanduser().resolve()) if rom else None
    training = config.training.model_copy(update={"rom": path})
    return config.model_copy(update={"run_dir": str(run.root), "training": training})


# -- show


def show_recording(args: argparse.Namespace, clock: Clock) -> int:
    """Show a recording in a window, or write a video of its last seconds or from --from on."""
    path: Path | None = args.gif or args.mp4
    opened = open_recording(args.recording, args)
    with closing(ReadAhead(*opened)) as ahead, closing(VerifyingPlayer(*opened)) as player:
        if path is None:
            _show_in_window(args, opened, ahead, player, clock)
        else:
            _write_video(args, ahead, player, path, clock)
    return 0


def _show_in_window(
    args: argparse.Namespace, opened: OpenedRecording, ahead: ReadAhead, player: VerifyingPlayer,
    clock: Clock,
) -> None:  # fmt: skip
    from Daddy.streaming.viewer.pygame_window import GameWindow

    begins = recording_format.frames_before_play(opened.recording)
    first = begins if args.first is None else args.first * FRAMES_PER_STEP
    title = f"Daddy: {opened.recording.title or args.recording.name}"
    with closing(GameWindow(title)) as window:
        print(f"{title}, in {opened.rom.name}\n{HELP}", flush=True)
        ahead.start()
        shown = RecordingWindow(ahead, player, window, clock, args.speed)
        shown.play(first, args.seconds or float("inf"))
    if ahead.failure is not None:
        raise ahead.failure


def _write_video(
    args: argparse.Namespace, ahead: ReadAhead, player: VerifyingPlayer, path: Path, clock: Clock
) -> None:
    """Verify the whole recording; write an MP4 of every frame or a GIF of every fourth."""
    from Daddy.streaming.viewer.clip_writer import write_video

    every = 1 if path.suffix.lower() == ".mp4" else FRAMES_PER_PICTURE
    wanted = round((args.seconds or _VIDEO_S) * FRAMES_PER_SECOND)
    _verify_all(ahead, clock)
    last = ahead.report.frames - wanted
    goal = max(0, last if args.first is None else args.first * FRAMES_PER_STEP)
    ahead.seek_player(player, goal)
    first = player.play_to(goal)
    pictures: list[bytes] = []
    player.set_watcher(lambda: pictures.append(player.packed_screen()), every)
    player.play_to(first + wanted)
    print(f"writing {path}: {len(pictures):,} pictures", flush=True)
    write_video(path, pictures, FRAMES_PER_SECOND / every * args.speed, ProgressLines(clock).show)
    length = len(pictures) * every / FRAMES_PER_SECOND
    print(
        f"wrote {path}: {length:.1f} s of the game from {format_time(first)}, verified", flush=True
    )


class RecordingWindow:
    """Plays a recording in a window, with keys for speed, pause and position."""

    def __init__(
        self,
        ahead: ReadAhead,
        player: VerifyingPlayer,
        window: GameWindow,
        clock: Clock,
        speed: float = 1.0,
    ) -> None:
        self._ahead, self._player, self._window = ahead, player, window
        self._title, self.speed, self.paused = window.caption, speed, False
        self._goal: int | None = None
        self._shown_frames = 0
        self._pacer = Pacer(clock)

    def play(self, first: int, seconds: float) -> None:
        """Play from frame ``first`` until the window is closed or ``seconds`` of the game passed.

        At the end, and at a frame that does not verify, the last picture stays.
        """
        self._goal = first
        limit = seconds * FRAMES_PER_SECOND
        while not self._window.closed and self._shown_frames < limit:
            if self._goal is not None and not self._is_awaited(self._goal):
                self._jump(self._goal)
            elif self._goal is not None or self._player.frames >= self._ahead.report.frames:
                self._redraw()
            else:
                self._player.step()

    def _is_awaited(self, goal: int) -> bool:
        """Return True while frame `goal` is not verified yet and the verification goes on."""
        ended = self._ahead.finished or self._ahead.failure is not None
        return goal > self._ahead.report.frames and not ended

    def _jump(self, goal: int) -> None:
        """Move the player to frame `goal`, at most the last verified one, without drawing."""
        self._player.set_watcher(None, 1)
        goal = max(0, min(goal, self._ahead.report.frames))
        if not self._player.frames <= goal < self._player.frames + _JUMP_FRAMES:
            self._ahead.seek_player(self._player, goal)
        self._player.play_to(goal)
        self._goal = None
        self._pacer.restart()
        self._player.set_watcher(self._frame, 1)

    def _frame(self) -> None:
        """Draw the present frame if it is due at this speed, then wait; called after each frame."""
        if self._window.closed or self._goal is not None:
            return
        self._shown_frames += 1
        if self._shown_frames % max(1, round(self.speed)) == 0:
            self._draw("")
        while self.paused and self._goal is None and not self._window.closed:
            self._redraw()
        self._pacer.wait(1 / FRAMES_PER_SECOND / self.speed)

    def _redraw(self) -> None:
        """Draw the present picture again, with the reason: paused, the end or not verified."""
        if self.paused:
            reason = "paused"
        elif self._ahead.failure is not None:
            reason = "not verified from here on"
        else:
            reason = "the end" if self._ahead.finished and self._goal is None else "verifying"
        self._draw(reason)
        self._pacer.wait(_IDLE_S)

    def _draw(self, reason: str) -> None:
        here = self._player.frames
        last = [name for name, frame in self._ahead.report.reached.items() if frame <= here]
        speed = "" if self.speed == 1 else f"{self.speed:g} x"
        parts = (self._title, format_time(here), *last[-1:], speed, reason)
        self._window.caption = "  ·  ".join(filter(None, parts))
        for key in self._window.show_picture(self._player.packed_screen()):
            self._press(key)

    def _press(self, key: str) -> None:
        """Change speed, pause or position by a pressed `key`, or close the window."""
        here = self._player.frames
        starts = [max(0, frame - _LEAD_FRAMES) for frame in self._ahead.report.reached.values()]
        goals = {
            "left": max(0, here - _JUMP_FRAMES),
            "right": here + _JUMP_FRAMES,
            "home": 0,
            "n": min((frame for frame in starts if frame > here), default=None),
            "p": max((frame for frame in starts if frame < here - _LEAD_FRAMES), default=None),
        }
        if key in goals:
            self._goal = goals[key]
        elif key in ("q", "escape"):
            self._window.closed = True
        elif key == "space":
            self.paused = not self.paused
        elif key == "[":
            self.speed = max((speed for speed in _SPEEDS if speed < self.speed), default=self.speed)
        elif key == "]":
            self.speed = min((speed for speed in _SPEEDS if speed > self.speed), default=self.speed)


VERBS: Final[dict[str, Callable[[Sequence[str]], int]]] = {"verify": verify, "export": export}
"""Verb of `play` → its function."""
