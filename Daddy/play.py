"""Entry: watch an agent play, in a window or as a film; judge it; record a start state by hand.

`python -m Daddy.play --weights DIR` shows what a learner would do: the same buttons for the same
frames, drawn from the same distribution. `python -m Daddy.play evaluate` counts instead of showing.
Parses and wires; decides nothing.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from Daddy import laptop, stage
from Daddy.core.clock import SystemClock
from Daddy.core.errors import UsageError, run_entry
from Daddy.core.files import write_json
from Daddy.core.settings import Config
from Daddy.learning.preloading import prepare
from Daddy.weights.whereabouts import version_number

if TYPE_CHECKING:
    from Daddy.evaluation import Played

SECONDS_OF_FILM = 30.0
EPISODES = 10


def make_parser() -> argparse.ArgumentParser:
    """The command line of showing and recording."""
    parser = argparse.ArgumentParser(
        prog="play",
        description="Watch an agent play, or a recording again. Verbs, with --help of their own: "
        "`play evaluate` judges an agent, `play verify` a recording, `play export` makes one of a "
        "run's way to a milestone.",
    )
    _add_who(parser, record=True)
    _add_game(parser)
    flag = parser.add_argument
    film = parser.add_mutually_exclusive_group()
    film.add_argument("--gif", type=Path, metavar="FILE", help="no window: write a GIF")
    film.add_argument("--mp4", type=Path, metavar="FILE", help="no window: write an MP4 (ffmpeg)")
    flag("--seconds", type=float, metavar="N",
         help=f"seconds of the game (a film {SECONDS_OF_FILM:g}, a window endless)")  # fmt: skip
    flag("--speed", type=float, default=1.0, metavar="X", help="times the game's own speed (1)")
    flag("--from", type=int, dest="first", metavar="STEP", help="of a recording: begin there")
    return parser


def make_judge_parser() -> argparse.ArgumentParser:
    """The command line of judging."""
    parser = argparse.ArgumentParser(
        prog="play evaluate",
        description="Play episodes from fresh seeds; tell milestones and returns with 95 % "
        "confidence intervals.",
    )
    _add_who(parser, record=False)
    _add_game(parser)
    flag = parser.add_argument
    flag("--versions", nargs=2, type=version_number, metavar=("vA", "vB"),
         help="two versions of a run (--weights, or the config's): pairs of episodes from the same "
         "starts, and the difference")  # fmt: skip
    flag("--episodes", type=int, default=EPISODES, metavar="N", help=f"how many ({EPISODES})")
    flag("--jobs", type=int, default=1, metavar="N", help="processes that share the episodes (1)")
    flag("--json", type=Path, metavar="FILE", help="write the whole result there")
    return parser


def _add_who(parser: argparse.ArgumentParser, *, record: bool) -> None:
    who = parser.add_mutually_exclusive_group(required=record)
    who.add_argument("--weights", type=Path, metavar="DIR|FILE",
                     help="a shared_weights folder, a run, or a checkpoint")  # fmt: skip
    who.add_argument("--random", action="store_true", help="press any button: no weights needed")
    if record:
        who.add_argument("--recording", type=Path, metavar="FILE",
                         help="a recording: verified and played again with your game")  # fmt: skip
        who.add_argument("--record-start", metavar="NAME",
                         help="play yourself; F5 keeps the moment as this start state")  # fmt: skip
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the first episode (1)")


def _add_game(parser: argparse.ArgumentParser) -> None:
    flag = parser.add_argument
    flag("--rom", help="your PokemonRed.gb (default: DADDY_ROM, else the cartridge)")
    flag("--cartridge", action="store_true", help="play the free cartridge")
    flag("--allow-unknown-rom", action="store_true", help="play a ROM whose SHA-1 is not known")
    flag("--start", metavar="NAME|FILE", help="start state: bedroom, pokedex, one recorded, a file")
    flag(
        "--states-dir", metavar="DIR", help="folder of a peer's PyBoy states, meant by their names"
    )
    flag("--assists", metavar="NAMES", help=laptop.ASSISTS_HELP)
    flag("--episode-steps", type=int, metavar="N", help="actions after which an episode is cut")
    parser.set_defaults(device="cpu")


def main(argv: Sequence[str] | None = None) -> int:
    """Codes: 0 done, 2 usage, 6 weights, 7 ROM, save state or recording, 8 no display, 9 files."""
    typed = list(sys.argv[1:] if argv is None else argv)
    if typed[:1] in (["verify"], ["export"]):
        from Daddy import replay

        return replay.VERBS[typed[0]](typed[1:])
    if typed[:1] == ["evaluate"]:
        return _evaluate(make_judge_parser().parse_args(typed[1:]), typed[1:])
    args = make_parser().parse_args(typed)
    if args.speed <= 0 or (args.seconds is not None and args.seconds <= 0):
        raise UsageError("--speed and --seconds must be more than 0", "leave them away")
    if args.recording:
        from Daddy.replay import show

        return show(args, SystemClock())
    prepare()
    if args.record_start:
        from Daddy.recording import record

        return record(args.record_start, _config(args), SystemClock())
    return _show(args)


def _config(args: argparse.Namespace) -> Config:
    config = laptop.game_config(args, stage.GAME)
    asked = {name: getattr(args, name) for name in ("start", "states_dir", "episode_steps")}
    given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    training = type(config.training).model_validate({**config.training.model_dump(), **given})
    return config.model_copy(update={"training": training})


def _label(found: stage.Found | None) -> str:
    return found.label if found else "random buttons"


def _show(args: argparse.Namespace) -> int:
    path: Path | None = args.gif or args.mp4
    if path is not None:
        from Daddy.streaming.viewer.clips import check

        check(path)
    config = _config(args)
    found = stage.find_weights(args.weights, config.training.assists) if args.weights else None
    label, game = _label(found), stage.open_game(config)
    try:
        actor = stage.cast(game, found)
        print(f"{label} in {game.rom.name}", flush=True)
        if path is None:
            return _in_window(args, game, actor, label)
        return _on_film(args, game, actor, path)
    finally:
        game.close()


def _on_film(args: argparse.Namespace, game: Any, actor: stage.Actor, path: Path) -> int:
    from Daddy.pokemon.emulator import FILM_FRAMES, FRAMES_PER_SECOND
    from Daddy.streaming.viewer.clips import save_film

    rate = FRAMES_PER_SECOND / FILM_FRAMES
    wanted = round((args.seconds or SECONDS_OF_FILM) * rate)
    pictures: list[bytes] = []
    game.watch(lambda: pictures.append(game.picture()))
    for _ in stage.perform(game, actor, args.seed, lambda: len(pictures) < wanted):
        pass
    save_film(path, pictures[:wanted], rate * args.speed)
    print(f"wrote {path}: {len(pictures[:wanted]) / rate:.1f} s of the game", flush=True)
    return 0


def _in_window(args: argparse.Namespace, game: Any, actor: stage.Actor, label: str) -> int:
    from Daddy.pokemon.emulator import FILM_FRAMES, FRAMES_PER_SECOND
    from Daddy.streaming.viewer.window import Handheld

    clock, never, pause = SystemClock(), threading.Event(), FILM_FRAMES / FRAMES_PER_SECOND
    window, left = Handheld(f"Daddy: {label}"), [args.seconds or float("inf")]
    due = [clock.monotonic()]

    def watch() -> None:
        left[0] -= pause
        if not window.closed and {"q", "escape"} & set(window.show(game.picture())):
            window.closed = True
        due[0] = max(due[0] + pause / args.speed, clock.monotonic())
        clock.wait(never, due[0] - clock.monotonic())

    game.watch(watch)
    try:
        for _ in stage.perform(game, actor, args.seed, lambda: left[0] > 0 and not window.closed):
            pass
    finally:
        window.close()
    return 0


def _evaluate(args: argparse.Namespace, typed: Sequence[str]) -> int:
    from Daddy.evaluation import report, table

    if args.episodes < 1 or args.jobs < 1:
        raise UsageError("--episodes and --jobs must be at least 1", "leave them away")
    prepare()
    config = _config(args)
    if args.versions:
        return _compare_versions(args, typed, config)
    if not (args.weights or args.random):
        raise UsageError("nothing to evaluate", "say --weights, --versions or --random")
    found = stage.find_weights(args.weights, config.training.assists) if args.weights else None
    game = stage.open_game(config)
    try:
        actor = stage.cast(game, found)
        result = report(_label(found), game, _judge(args, typed, game, actor))
    finally:
        game.close()
    print(table(result), flush=True)
    if args.json:
        write_json(args.json, result)
    return 0


def _compare_versions(args: argparse.Namespace, typed: Sequence[str], config: Config) -> int:
    from Daddy.evaluation import comparison, comparison_table, note_comparison, open_versions

    if args.random or args.versions[0] == args.versions[1]:
        raise UsageError("--versions compares two versions of a run", "name two, without --random")
    store, pair = open_versions(args.weights, args.versions, config.training.assists)
    flags = without(typed, {"--versions": 2, "--weights": 1})
    game = stage.open_game(config)
    try:
        played = [_judge(args, flags, game, stage.cast(game, one.found)) for one in pair]
        result = comparison(pair, game, played)
    finally:
        game.close()
    print(comparison_table(result), flush=True)
    note_comparison(store, pair, config, result, SystemClock().now())
    if args.json:
        write_json(args.json, result)
    return 0


def without(typed: Sequence[str], flags: Mapping[str, int]) -> list[str]:
    """The command line without these flags, each with its number of values."""
    kept, skip = list[str](), 0
    for word in typed:
        if skip:
            skip -= 1
        elif word in flags:
            skip = flags[word]
        elif word.partition("=")[0] not in flags:
            kept.append(word)
    return kept


def _judge(
    args: argparse.Namespace, typed: Sequence[str], game: Any, actor: stage.Actor
) -> list[Played]:
    from Daddy.evaluation import judge, judge_in_children
    from Daddy.pokemon import story

    seeds, names = range(args.seed, args.seed + args.episodes), len(story.names(game.rom.real))
    jobs = min(args.jobs, args.episodes)
    if jobs > 1:
        return judge_in_children(typed, seeds, jobs, stage.freeze(actor))

    def tell(one: Played, done: int, count: int) -> None:
        what = f"{len(one.reached)} of {names} milestones in {one.steps} steps"
        line = f"  {done:3d}/{count}  seed {one.seed}: return {one.episode_return:.2f}, {what}"
        print(line, file=sys.stderr, flush=True)

    return judge(game, actor, seeds, tell)


def cli() -> None:
    """Installed command."""
    sys.exit(run_entry(main))


if __name__ == "__main__":
    cli()
