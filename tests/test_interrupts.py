"""Ctrl-C: a real SIGINT to real programs. One word, exit code 130, nothing half-written is left."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from tests.components import program
from tests.patience import PATIENCE_S, until

ROOT = Path(__file__).resolve().parents[1]
PLAY = ["-m", "Daddy.play"]
EVALUATE = [*PLAY, "evaluate", "--cartridge", "--random", "--episodes", "100000"]
ENDED_BY = (130, -signal.SIGINT)
"""Exit codes that a shell shows as 130; Python takes the second if it was executing a string."""
LOOP = """
from Daddy.pokemon.env import PokemonRedEnv
env = PokemonRedEnv()
env.reset(seed=1)
try:
    print("playing", flush=True)
    while True:
        _, _, ended, cut, _ = env.step(env.action_space.sample())
        if ended or cut:
            env.reset()
except KeyboardInterrupt:
    env.close()
    raise SystemExit(130)
"""


class End(NamedTuple):
    """Holds exit code, output and temporary files of an ended program."""

    code: int
    printed: str
    files: Sequence[str]


def interrupt(
    tmp_path: Path,
    typed: Sequence[str],
    begun: str | Callable[[psutil.Process], object],
    send: Callable[[int, int], None] = os.kill,
) -> End:
    """Run Python with `typed`; send SIGINT after a line with `begun`, or once `begun` is true."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    own = {"TMPDIR": str(temporary), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environ: Mapping[str, str] = {**os.environ, **own, "SDL_VIDEODRIVER": "dummy"}
    child = subprocess.Popen(
        [sys.executable, *typed], cwd=ROOT, env=environ, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    with child:
        try:
            assert child.stdout is not None
            if isinstance(begun, str):
                assert next((line for line in child.stdout if begun in line), ""), "it ended"
            else:
                assert until(lambda: begun(psutil.Process(child.pid)), 60)
            send(child.pid, signal.SIGINT)
            printed, _ = child.communicate(timeout=PATIENCE_S)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
    return End(child.returncode, printed, sorted(path.name for path in temporary.iterdir()))


def loads_workers(parent: psutil.Process) -> bool:
    return any("spawn_main" in " ".join(child.cmdline()) for child in parent.children())


@pytest.mark.parametrize(
    ("typed", "begun"),
    [
        pytest.param(EVALUATE, " 1/100000", id="evaluate"),
        pytest.param([*EVALUATE, "--jobs", "2"], loads_workers, id="evaluating processes load"),
        pytest.param(["-X", "importtime", *EVALUATE], "gymnasium.logger", id="imports"),
        pytest.param([*PLAY, "--cartridge", "--record-start", "spot"], "F5 saves", id="by hand"),
        pytest.param(
            ["-m", "Daddy.autotune", "--nice", "0", "--cartridge"], "steps/s", id="autotune"
        ),
        pytest.param(["-m", "Daddy.cluster.orchestrator.simulate"], loads_workers, id="simulate"),
        pytest.param(["-m", "scripts.soaks", "weights"], loads_workers, id="soak"),
    ],
)
def test_ctrl_c_ends_a_program_in_a_word(
    tmp_path: Path, typed: Sequence[str], begun: str | Callable[[psutil.Process], object]
) -> None:
    if "Daddy.autotune" in typed:
        typed = [*typed, "--profile-dir", str(tmp_path / "profiles")]
    end = interrupt(tmp_path, typed, begun, os.killpg)  # as a terminal does
    assert end.code in ENDED_BY
    assert end.printed.splitlines()[-1] == "interrupted"
    assert "Traceback" not in end.printed
    assert end.files == []


def test_ctrl_c_ends_a_command_that_still_loads(tmp_path: Path) -> None:
    end = interrupt(tmp_path, ["-X", "importtime", *EVALUATE], "Daddy.core.errors")
    assert end.code in ENDED_BY
    assert "Traceback" not in end.printed
    assert end.files == []


def test_ctrl_c_reaches_a_program_of_ones_own_whose_package_imports_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "mine"
    package.mkdir()
    (package / "__init__.py").write_text("import Daddy.core.errors")
    (package / "train.py").write_text(LOOP)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert interrupt(tmp_path, ["-m", "mine.train"], "playing") == End(130, "", [])


@pytest.mark.parametrize("begun", ["random buttons", "writing"])
@pytest.mark.parametrize("kind", ["gif", "mp4"])
def test_ctrl_c_leaves_nothing_of_a_film(tmp_path: Path, kind: str, begun: str) -> None:
    if kind == "mp4":
        program("ffmpeg", "ffmpeg")
    folder = tmp_path / "films"
    folder.mkdir()
    seconds = "100000" if begun != "writing" else "100"
    typed = [*PLAY, "--cartridge", "--random", "--seconds", seconds]
    end = interrupt(tmp_path, [*typed, f"--{kind}", str(folder / f"film.{kind}")], begun)
    assert end.code in ENDED_BY
    assert end.printed.splitlines()[-1] == "interrupted"
    assert "Traceback" not in end.printed
    assert [*end.files, *folder.iterdir()] == []


def test_ctrl_c_reaches_a_loop_of_ones_own(tmp_path: Path) -> None:
    assert interrupt(tmp_path, ["-c", LOOP], "playing") == End(130, "", [])
