"""Entry: shows an agent in a window or as a video; evaluates agents; records a start state.

`python -m Daddy.play --weights DIR` plays as a learner does: the same frames per button, and
actions sampled from the policy. `python -m Daddy.play evaluate` counts milestones and returns.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from Daddy import laptop_common, playback_setup
from Daddy.core.arguments import ArgumentParser, decimal_number, positive_seconds, whole_number
from Daddy.core.atomic_files import write_json
from Daddy.core.clock import SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import UsageError
from Daddy.core.settings import Config
from Daddy.core.terminal import print_screen
from Daddy.learning.startup_preloading import prepare_imports
from Daddy.playback_setup import LoadedWeights, play_episodes
from Daddy.weights.locate_shared_weights import version_number

SECONDS_OF_FILM = 30.0
EPISODES = 10


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of `play` without a verb."""
    parser = ArgumentParser(
        prog="play",
        description="Watch an agent play, or replay a recording. Verbs, each with --help: `play "
        "evaluate` evaluates an agent, `play verify` verifies a recording, `play export` makes a "
        "recording of a run's path to a milestone.",
    )
    parser.verbs = ("evaluate", "verify", "export")
    source = _add_agent(parser, required=True)
    source.add_argument("--recording", type=Path, metavar="FILE",
                        help="recording to verify and replay with your game")  # fmt: skip
    source.add_argument("--record-start", metavar="NAME",
                        help="name of the state to record: you play, F5 saves it")  # fmt: skip
    _add_game(parser)
    flag = parser.add_argument
    video = parser.add_mutually_exclusive_group()
    video.add_argument("--gif", type=Path, metavar="FILE", help="GIF to write, without a window")
    video.add_argument("--mp4", type=Path, metavar="FILE", help="MP4 to write, by ffmpeg")
    flag("--seconds", type=positive_seconds, metavar="N",
         help=f"seconds to show (a video: {SECONDS_OF_FILM:g}, a window: no limit)")  # fmt: skip
    flag(
        "--speed",
        type=decimal_number(0.01, 1_000),
        default=1.0,
        metavar="X",
        help="factor of the game's speed (1)",
    )
    flag(
        "--from",
        type=whole_number(0),
        dest="first",
        metavar="STEP",
        help="the recording's step to begin at",
    )
    return parser


def make_evaluate_parser() -> argparse.ArgumentParser:
    """Return the parser of `play evaluate`."""
    parser = ArgumentParser(
        prog="play evaluate",
        description="Play one episode per seed; print milestones and returns with 95 % confidence "
        "intervals.",
    )
    _add_agent(parser, required=False)
    _add_game(parser)
    flag = parser.add_argument
    flag("--versions", nargs=2, type=version_number, metavar=("vA", "vB"),
         help="two versions to compare, of the run at --weights (the configured run)")  # fmt: skip
    flag(
        "--episodes",
        type=whole_number(1),
        default=EPISODES,
        metavar="N",
        help=f"episode count ({EPISODES})",
    )
    flag(
        "--jobs",
        type=whole_number(1, 4_096),
        default=1,
        metavar="N",
        help="number of processes to play in (1)",
    )
    flag("--json", type=Path, metavar="FILE", help="file to write the whole result to, as JSON")
    return parser


def _add_agent(parser: argparse.ArgumentParser, *, required: bool) -> Any:
    """Add --weights, --random and --seed; return the group of flags that exclude each other."""
    source = parser.add_mutually_exclusive_group(required=required)
    source.add_argument("--weights", type=Path, metavar="DIR|FILE",
                        help="shared_weights folder, run, checkpoint or file")  # fmt: skip
    source.add_argument("--random", action="store_true", help="play random buttons, not weights")
    parser.add_argument(
        "--seed", type=whole_number(0), default=1, metavar="N", help="first episode's seed (1)"
    )
    return source


def _add_game(parser: argparse.ArgumentParser) -> None:
    playback_setup.add_game_flags(parser)
    flag = parser.add_argument
    flag("--assists", metavar="NAMES", help=laptop_common.ASSISTS_HELP)
    flag(
        "--episode-steps",
        type=whole_number(1),
        metavar="N",
        help="steps after which an episode ends (2048)",
    )
    parser.set_defaults(device="cpu")


def main(argv: Sequence[str] | None = None) -> int:
    """Run `play`; return 0 done, 2 usage, 6 weights, 7 ROM or state, 8 no display, 9 files."""
    typed = list(sys.argv[1:] if argv is None else argv)
    if typed[:1] in (["verify"], ["export"]):
        from Daddy import recording_cli

        return recording_cli.VERBS[typed[0]](typed[1:])
    if typed[:1] == ["evaluate"]:
        return _evaluate(make_evaluate_parser().parse_args(typed[1:]))
    args = make_parser().parse_args(typed)
    if (path := args.gif or args.mp4) is not None:
        from Daddy.streaming.viewer.clip_writer import check_video_path

        check_video_path(path)
    if args.recording:
        from Daddy.recording_cli import show_recording

        return show_recording(args, SystemClock())
    prepare_imports()
    if args.record_start:
        from Daddy.hand_recorded_start import record_start_state

        return record_start_state(args.record_start, _config(args), SystemClock())
    return _show_agent(args)


def _config(args: argparse.Namespace) -> Config:
    config = laptop_common.game_config(args, playback_setup.GAME)
    flags = {name: getattr(args, name) for name in ("start", "episode_steps")}
    given: dict[str, Any] = {name: value for name, value in flags.items() if value is not None}
    return laptop_common.with_training(config, **given)


def _load_weights(args: argparse.Namespace, config: Config) -> LoadedWeights | None:
    path, assists = args.weights, config.training.assists
    return playback_setup.find_weights(path, assists) if path else None


def _label(weights: LoadedWeights | None) -> str:
    return weights.label if weights else "random buttons"


def _show_agent(args: argparse.Namespace) -> int:
    path, config = args.gif or args.mp4, _config(args)
    weights = _load_weights(args, config)
    with closing(playback_setup.open_game(config)) as game:
        actor = playback_setup.make_actor(game, weights)
        print(f"{_label(weights)} in {game.rom.name}", flush=True)
        if path is None:
            _show_in_window(args, game, actor, _label(weights))
        else:
            _write_video(args, game, actor, path)
    return 0


def _write_video(
    args: argparse.Namespace, game: Any, actor: playback_setup.Actor, path: Path
) -> None:
    from Daddy.pokemon.emulator import FRAMES_PER_PICTURE, FRAMES_PER_SECOND
    from Daddy.streaming.viewer.clip_writer import write_video

    rate = FRAMES_PER_SECOND / FRAMES_PER_PICTURE
    wanted = round((args.seconds or SECONDS_OF_FILM) * rate)
    pictures: list[bytes] = []
    progress = playback_setup.ProgressLines(SystemClock())

    def go_on() -> bool:
        progress.show(f"played {len(pictures) / rate:.0f} of {wanted / rate:.0f} s")
        return len(pictures) < wanted

    game.set_watcher(lambda: pictures.append(game.picture()))
    play_episodes(game, actor, args.seed, go_on)
    print(f"writing {path}: {wanted:,} pictures", flush=True)
    write_video(path, pictures[:wanted], rate * args.speed, progress.show)
    print(f"wrote {path}: {wanted / rate:.1f} s of the game", flush=True)


def _show_in_window(
    args: argparse.Namespace, game: Any, actor: playback_setup.Actor, label: str
) -> None:
    from Daddy.pokemon.emulator import FRAMES_PER_PICTURE, FRAMES_PER_SECOND
    from Daddy.streaming.viewer.pygame_window import GameWindow

    pacer, pause = playback_setup.Pacer(SystemClock()), FRAMES_PER_PICTURE / FRAMES_PER_SECOND
    left_s = args.seconds or float("inf")

    def show_picture() -> None:
        nonlocal left_s
        left_s -= pause
        if not window.closed and {"q", "escape"} & set(window.show_picture(game.picture())):
            window.closed = True
        pacer.wait(pause / args.speed)

    with closing(GameWindow(f"Daddy: {label}")) as window:
        game.set_watcher(show_picture)
        play_episodes(game, actor, args.seed, lambda: left_s > 0 and not window.closed)


def _evaluate(args: argparse.Namespace) -> int:
    from rich.text import Text

    from Daddy import evaluation

    if args.versions and (args.random or args.versions[0] == args.versions[1]):
        raise UsageError("--versions compares two versions of a run", "name two, without --random")
    if not (args.versions or args.weights or args.random):
        raise UsageError("nothing to evaluate", "give --weights, --versions or --random")
    prepare_imports()
    config = _config(args)
    seeds = range(args.seed, args.seed + args.episodes)
    if args.versions:
        result = evaluation.compare_versions(config, args.weights, args.versions, seeds, args.jobs)
        print_screen(lambda _: Text(evaluation.format_comparison(result)))
    else:
        weights = _load_weights(args, config)
        with closing(playback_setup.open_game(config)) as game:
            (played,) = evaluation.evaluate_parallel(config, game, [weights], seeds, args.jobs)
            result = evaluation.result_as_json(_label(weights), game, played)
        print_screen(partial(evaluation.render_result, result))
    if args.json:
        write_json(args.json, result)
    return 0


if __name__ == "__main__":
    sys.exit(run_entry(main))
