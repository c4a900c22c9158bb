"""`python -m Daddy.play`, as a person types it, with weights of a real short run."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from Daddy import hand_recorded_start, play, playback_setup, train_slim
from Daddy.core.clock import SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ExitCode, RomError, UsageError, WeightsError
from Daddy.core.load_config import load_config
from Daddy.core.rom_identity import load_rom
from Daddy.core.run_paths import RunPaths
from Daddy.core.settings import TrainingSettings
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.evaluation import render_result
from Daddy.playback_setup import RandomAgent
from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.env import PokemonRedEnv
from Daddy.pokemon.find_rom import find_rom
from Daddy.pokemon.starts.find_start_state import BY_HAND, beginning_state, start_state
from Daddy.pokemon.starts.start_state_folder import open_state_folder
from Daddy.workloads import WORKLOADS
from scripts.benches._state_report import play_time_s
from tests.components import program
from tests.in_this_process import run_here
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[1]
GAME = ["--cartridge"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    """The run directory of a learner that took 512 steps on the cartridge."""
    run = RunPaths(tmp_path_factory.mktemp("trained") / "run")
    flags = ["--cartridge", "--run-dir", str(run.root), "--device", "cpu", "--num-envs", "2"]
    flags += ["--total-steps", "512", "--batch-size", "64", "--no-stream"]
    settings = {"DADDY_TRAINING__VECTOR_BACKEND": "serial", "DADDY_TRAINING__TENSORBOARD": "false"}
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DADDY", "SLURM"))}
    done = run_here(train_slim.main, flags, ROOT, {**kept, **settings})
    assert done.returncode == 0, done.stderr
    return run


class Hasty(SystemClock):
    """A clock for whom no pause is worth waiting for."""

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        return stop.is_set()


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("DADDY_ROM", raising=False)


def test_a_run_its_shared_folder_a_slot_and_a_checkpoint_all_name_weights(
    trained: RunPaths,
) -> None:
    blob = next(trained.slot(0).checkpoints.glob("*.safetensors"))
    labels = [
        playback_setup.find_weights(path).label
        for path in (
            trained.root,
            trained.shared_weights,
            trained.slot(0).root,
            trained.slot(0).checkpoints,
            blob,
            blob.with_suffix(".json"),
        )
    ]
    assert all(label.startswith("version ") for label in labels[:2])
    assert labels[2:] == ["checkpoint at step 512"] * 4


def test_an_agent_plays_as_its_weights_and_seed_say(trained: RunPaths, tmp_path: Path) -> None:
    films = [tmp_path / f"{name}.gif" for name in ("one", "same", "other")]
    for film, seed in zip(films, ("3", "3", "4"), strict=True):
        typed = ["--weights", str(trained.root), "--gif", str(film), "--seconds", "4"]
        assert play.main([*GAME, *typed, "--seed", seed]) == 0
    assert films[0].read_bytes() == films[1].read_bytes() != films[2].read_bytes()


def test_a_gif_is_as_long_as_was_asked_and_shows_the_game(tmp_path: Path) -> None:
    film = tmp_path / "random.gif"
    assert play.main([*GAME, "--random", "--gif", str(film), "--seconds", "6"]) == 0
    with Image.open(film) as image:
        frames = []
        for number in range(image.n_frames):
            image.seek(number)
            frames.append((np.asarray(image.convert("L")), image.info["duration"]))
    assert sum(duration for _, duration in frames) == pytest.approx(6000, rel=0.1)
    assert len(frames) > 10
    first = frames[0][0]
    assert first.shape == (288, 320)
    game = PokemonRedEnv()
    game.reset(seed=1)
    drawn: list[np.ndarray] = []
    game.set_watcher(lambda: drawn.append(game._emulator.full_screen()))
    actor = RandomAgent(7)
    actor.start_episode(1)
    game.step(actor.act({}))
    game.close()
    assert np.array_equal(first[::2, ::2] // 84, drawn[0] >> 6)


def test_lasting_work_prints_its_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(playback_setup, "_PROGRESS_EVERY_S", 0.0, raising=False)
    film = str(tmp_path / "film.gif")
    assert play.main([*GAME, "--random", "--gif", film, "--seconds", "6"]) == 0
    shown = capsys.readouterr()
    assert "  played 2 of 6 s\n" in shown.err
    assert "  drew 1 of " in shown.err
    assert f"writing {film}: 90 pictures\n" in shown.out
    typed = ["evaluate", *GAME, "--random", "--episodes", "1", "--episode-steps", "40"]
    assert play.main(typed) == 0
    assert "  seed 1: 20 steps\n" in capsys.readouterr().err


def test_random_buttons_are_played_without_loading_torch() -> None:
    typed = ["evaluate", *GAME, "--random", "--episodes", "1", "--episode-steps", "5"]
    program = f"import sys; from Daddy import play; code = play.main({typed})"
    ends = "sys.exit(code or 'torch' in sys.modules)"
    argv = [sys.executable, "-c", f"{program}; {ends}"]
    assert subprocess.run(argv, cwd=ROOT, check=False, stdout=subprocess.DEVNULL).returncode == 0


def test_progress_is_shown_every_two_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    class Counting(SystemClock):
        seconds = 0.0

        def monotonic(self) -> float:
            return self.seconds

    clock = Counting()
    progress = playback_setup.ProgressLines(clock)
    for second in range(5):
        clock.seconds = second
        progress.show(f"{second} s")
    assert capsys.readouterr().err == "  2 s\n  4 s\n"


def test_an_mp4_needs_ffmpeg_and_says_so_before_playing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(playback_setup, "open_game", lambda _: pytest.fail("played first"))
    with pytest.raises(UsageError, match="needs ffmpeg"):
        play.main([*GAME, "--random", "--mp4", str(tmp_path / "x.mp4")])


def test_an_mp4_is_written_where_ffmpeg_is(tmp_path: Path) -> None:
    program("ffmpeg", "ffmpeg")
    film = tmp_path / "random.mp4"
    assert play.main([*GAME, "--random", "--mp4", str(film), "--seconds", "2"]) == 0
    assert film.read_bytes()[4:8] == b"ftyp"


def test_being_watched_changes_nothing() -> None:
    """The same buttons for the same frames: what is shown is what is trained on."""
    seen = []
    for watcher in (None, lambda: None):
        game = PokemonRedEnv()
        game.set_watcher(watcher)
        game.reset(seed=9)
        actor = RandomAgent(7)
        actor.start_episode(9)
        for _ in range(150):
            observation, *_ = game.step(actor.act({}))
        seen.append((observation, game.save_state()))
        game.close()
    assert all(np.array_equal(seen[0][0][key], seen[1][0][key]) for key in seen[0][0])
    assert seen[0][1] == seen[1][1]


def test_evaluate_tells_returns_milestones_and_what_is_not_known(
    trained: RunPaths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "result.json"
    typed = ["--weights", str(trained.root), "--episodes", "3", "--episode-steps", "60"]
    assert play.main(["evaluate", *GAME, *typed, "--seed", "5", "--json", str(written)]) == 0
    told = capsys.readouterr()
    result = json.loads(written.read_text())
    assert [episode["seed"] for episode in result["episodes"]] == [5, 6, 7]
    assert [episode["steps"] for episode in result["episodes"]] == [60, 60, 60]
    returns = [episode["episode_return"] for episode in result["episodes"]]
    assert result["return"]["mean"] == pytest.approx(sum(returns) / 3)
    assert result["return"]["low"] <= result["return"]["mean"] <= result["return"]["high"]
    assert "3 episodes of at most 60 steps; 95 % intervals" in told.out
    assert told.err.count(" milestones in ") == 3


@pytest.mark.parametrize("width", [48, 60, 80, 120])
def test_a_narrow_evaluation_has_fewer_columns_and_whole_numbers(width: int) -> None:
    interval = {"mean": 0.9, "low": 0.5, "high": 1.0}
    reached = {"reached": 9, "assisted": 0, **interval, "median_step": 1875.0}
    result = {
        "weights": "v14", "game": "Daddy cartridge", "assists": [], "episode_steps": 2048,
        "episodes": [{}] * 10, "return": interval, "steps": interval, "won": interval,
        "milestones": {"greeted_dad": reached, "beat_brock": {"reached": 0}},
    }  # fmt: skip
    console = Console(width=width, color_system=None)
    with console.capture() as text:
        console.print(render_result(result, width))
    (row,) = [line for line in text.get().splitlines() if line.startswith("  greeted_dad ")]
    assert "  9 of 10" in row
    assert ("1875" in row) == (width >= 60)
    assert ("###" in row) == (width > 60)
    assert "1 of 2 milestones were never reached" in text.get()


def test_episodes_judged_side_by_side_come_out_as_one_after_the_other(tmp_path: Path) -> None:
    """With random buttons, for which no process loads torch; those of two versions do."""
    typed = ["evaluate", *GAME, "--random", "--episode-steps", "40"]
    results = []
    for jobs in ("1", "2"):
        written = tmp_path / f"{jobs}.json"
        flags = ["--episodes", "3", "--jobs", jobs, "--json", str(written)]
        assert play.main([*typed, *flags]) == 0
        results.append(written.read_bytes())
    assert results[0] == results[1]


@pytest.mark.parametrize(("agent", "interrupt"), [("weights", os.kill), ("random", os.killpg)])
def test_ctrl_c_ends_the_processes_that_judge(
    trained: RunPaths, agent: str, interrupt: Callable[[int, int], None]
) -> None:
    actor = ["--random"] if agent == "random" else ["--weights", str(trained.root)]
    typed = ["evaluate", *GAME, *actor, "--episode-steps", "40"]
    judging = subprocess.Popen(
        [sys.executable, "-m", "Daddy.play", *typed, "--episodes", "10000", "--jobs", "2"],
        cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    with judging:
        try:
            assert judging.stderr is not None
            begun = 0  # two processes may write their lines as one
            while begun < 2 and (line := judging.stderr.readline()):
                begun += line.count(" 1/5000 ")
            assert begun == 2
            interrupt(judging.pid, signal.SIGINT)
            _, said = judging.communicate(timeout=PATIENCE_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(judging.pid, signal.SIGKILL)
    assert judging.returncode == ExitCode.INTERRUPTED
    assert said.splitlines()[-1] == "interrupted"
    assert "Traceback" not in said


def test_two_versions_are_compared_from_the_same_starts_and_noted_for_status(
    trained: RunPaths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from Daddy.weights.evaluations import read_evaluations

    shared = SharedPaths(trained.shared_weights)
    newest = max(int(path.stem[1:]) for path in shared.merged.glob("v*.json"))
    typed = ["evaluate", *GAME, "--weights", str(trained.root), "--versions", "v0", f"v{newest}"]
    results = []
    for jobs in ("1", "2"):
        written = tmp_path / f"{jobs}.json"
        flags = ["--episodes", "3", "--episode-steps", "40", "--jobs", jobs]
        assert play.main([*typed, *flags, "--json", str(written)]) == 0
        results.append(json.loads(written.read_text()))
    assert results[0] == results[1]
    first, second = results[0]["returns"]
    mean = sum(a - b for a, b in zip(first, second, strict=True)) / 3
    assert results[0]["difference"]["mean"] == pytest.approx(mean)
    assert f"v0 - v{newest}" in capsys.readouterr().out
    noted = read_evaluations(shared)[-1]
    assert (noted.version, noted.reference) == (newest, 0)
    assert noted.pairs == tuple(
        (seed, round(b, 6), round(a, 6))
        for seed, a, b in zip(results[0]["seeds"], first, second, strict=True)
    )


def test_versions_that_cannot_be_compared_are_refused(trained: RunPaths, tmp_path: Path) -> None:
    place = ["evaluate", *GAME, "--weights", str(trained.root), "--versions"]
    with pytest.raises(UsageError, match="two versions"):
        play.main([*place, "v0", "v0"])
    with pytest.raises(WeightsError, match="cannot be read"):
        play.main([*place, "v0", "v999"])
    with pytest.raises(UsageError, match="nothing to evaluate"):
        play.main(["evaluate", *GAME])


def test_a_child_that_cannot_judge_ends_the_whole_with_its_error(tmp_path: Path) -> None:
    from Daddy.evaluation import evaluate_parallel

    gone = load_config(None, {"training.rom": str(tmp_path / "none.gb")})
    game = PokemonRedEnv()
    with pytest.raises(RomError, match=r"none\.gb"):
        evaluate_parallel(gone, game, [None], range(1, 3), 2)
    game.close()


def test_evaluate_counts_the_step_at_which_a_milestone_was_first_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from Daddy import evaluation
    from Daddy.evaluation import play_one_episode

    game = PokemonRedEnv(episode_steps=20)
    held = iter([{"a"}] + [{"a"}] * 4 + [{"a", "b"}] * 3 + [{"a"}] * 13)
    told = SimpleNamespace(reached_milestones=lambda *_: frozenset(next(held)))
    monkeypatch.setattr(evaluation, "story_milestones", told)
    played = play_one_episode(game, RandomAgent(7), 1)
    game.close()
    assert played.reached == {"b": 5}, "what held at the start is nobody's merit"


def test_who_is_judged_goes_on_from_no_archive_and_leaves_nothing_in_one(tmp_path: Path) -> None:
    """Also where the settings of a run, or its variables, want one."""
    wanted = {"archive.mode": "both", "run_dir": str(tmp_path / "run")}
    game = playback_setup.open_game(load_config(None, wanted))
    try:
        for _ in playback_setup.episode_steps(game, RandomAgent(7), seed=1):
            if play_time_s(game.progress.image) > 20:
                break
    finally:
        game.close()
    assert not (tmp_path / "run").exists()


def test_the_same_seeds_are_judged_the_same() -> None:
    from Daddy.evaluation import evaluate_episodes

    results = []
    for _ in range(2):
        game = PokemonRedEnv(episode_steps=50)
        results.append(evaluate_episodes(game, RandomAgent(7), [1, 2]))
        game.close()
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        (["--random", "--gif", "/nowhere/at/all.gif"], 2),
        (["--weights", "/nowhere/at/all", "--gif", "x.gif"], 6),
        (["--random", "--gif", "x.gif", "--start", "mew"], 7),
        (["--random", "--gif", "x.gif", "--rom", "/nowhere.gb"], 7),
    ],
)
def test_what_cannot_be_done_is_told_with_its_code(
    typed: list[str], code: int, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_entry(play.main, typed if "--rom" in typed else [*typed, *GAME]) == code
    assert "what to do" in capsys.readouterr().err


def test_a_learner_asks_for_its_start_before_anything_is_made(tmp_path: Path) -> None:
    flags = ["--cartridge", "--run-dir", str(tmp_path / "run"), "--device", "cpu"]
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DADDY", "SLURM"))}
    done = run_here(train_slim.main, [*flags, "--start", "mew"], ROOT, kept)
    assert done.returncode == 7
    assert "there is no start state 'mew' of Daddy cartridge" in done.stderr
    assert "beginning, bedroom, pokedex" in done.stderr


@pytest.mark.parametrize("sizes", [(48, 24), (40, 0)])
def test_a_network_of_any_size_is_played_without_a_setting(
    tmp_path: Path, sizes: tuple[int, int]
) -> None:
    from Daddy.weights.encoding.state_codec import encode

    training = TrainingSettings(encoder_size=sizes[0], lstm_size=sizes[1])
    with closing(PokemonRedEnv()) as game:
        space = game.observation_space, game.action_space
        policy = WORKLOADS["pokemon_red"].make_policy(training, *space)
        (tmp_path / "it.st").write_bytes(encode(policy.state_dict()))
        found = playback_setup.find_weights(tmp_path / "it.st")
        actor = playback_setup.make_actor(game, found)
        actor.start_episode(1)
        assert 0 <= actor.act(game.reset(seed=1)[0]) < game.action_space.n


def test_weights_of_another_network_are_refused_by_name(tmp_path: Path) -> None:
    import torch

    from Daddy.weights.encoding.state_codec import encode

    (tmp_path / "other.st").write_bytes(encode({"actor.weight": torch.zeros(3, 3)}))
    found = playback_setup.find_weights(tmp_path / "other.st")
    game = PokemonRedEnv()
    with pytest.raises(WeightsError, match=r"other\.st has weights of another network"):
        playback_setup.make_actor(game, found)
    game.close()


def test_a_moment_is_kept_by_hand_and_found_under_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rom = load_rom(find_rom(None, environ={}))
    shelf, emulator = open_state_folder(rom.sha1), Emulator(rom.data)
    assert not hand_recorded_start.keep_state(emulator, rom, shelf, "early"), (
        "the title is no start"
    )
    emulator.restore_state(beginning_state(rom))
    emulator.hold({"down"}, 20)
    assert hand_recorded_start.keep_state(emulator, rom, shelf, "spot")
    emulator.close()
    assert shelf.state_names(BY_HAND) == ["spot"]
    assert start_state(rom, "spot") == shelf.read_verified("spot", BY_HAND)


def test_the_window_takes_keys_and_f5_keeps_the_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    import pygame

    from Daddy.streaming.viewer import pygame_window

    really = pygame_window.GameWindow.show_picture
    shown = [0]

    def show(window: pygame_window.GameWindow, pixels: bytes) -> list[str]:
        shown[0] += 1
        strokes = {2: pygame.K_RETURN, 100: pygame.K_F5, 103: pygame.K_q}
        if shown[0] in strokes:
            pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=strokes[shown[0]]))
        if shown[0] == 6:
            pygame.event.post(pygame.event.Event(pygame.KEYUP, key=pygame.K_RETURN))
        return really(window, pixels)

    monkeypatch.setattr(pygame_window.GameWindow, "show_picture", show)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    config = load_config()
    assert hand_recorded_start.record_start_state("spot", config, Hasty()) == 0
    assert "saved" in capsys.readouterr().out
    assert not pygame.display.get_init()


def test_leaving_without_having_kept_anything_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from Daddy.streaming.viewer import pygame_window

    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setattr(pygame_window.GameWindow, "show_picture", lambda *_: ["q"])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    config = load_config()
    with pytest.raises(RomError, match="no state was saved as 'spot'"):
        hand_recorded_start.record_start_state("spot", config, Hasty())
