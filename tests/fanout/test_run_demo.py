"""The demo from its command line to its files: results, errors, resume, Ctrl-C."""

import asyncio
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from Daddy import run_demo
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ExitCode, FileError, SandboxError
from Daddy.fanout import fanout_files, run_batch
from Daddy.fanout.fanout_files import FanoutPaths, begin_run, hold_run, save_result
from Daddy.fanout.fanout_settings import FanoutSettings
from Daddy.sandbox import backend_facts
from Daddy.sandbox.choose_backend import BackendFacts
from Daddy.sandbox.sandbox_interfaces import Command, Limits, OnLine, Outcome, SandboxSpec
from tests.components import program
from tests.fanout.conftest import Demo
from tests.fanout.stand_in import ChildBackend, ChildSandbox, no_facts
from tests.patience import PATIENCE_S, until
from tests.sandbox.fake_docker import FakeDocker

ROOT = Path(__file__).resolve().parents[2]


class KilledSandbox(ChildSandbox):
    """Is killed from outside while its program runs."""

    async def run(
        self, command: Command, limits: Limits | None = None, on_line: OnLine | None = None
    ) -> Outcome:
        def kill(_: str) -> None:
            assert self.child
            os.kill(self.child.pid, signal.SIGKILL)

        endless = "import signal; print('begun', flush=True); signal.pause()"
        return await super().run(Command(argv=(sys.executable, "-c", endless)), limits, kill)


class KillingBackend(ChildBackend):
    """Makes sandboxes of which the second is killed."""

    async def create(self, spec: SandboxSpec) -> ChildSandbox:
        self.made.append(KilledSandbox() if len(self.made) == 1 else ChildSandbox())
        return self.made[-1]


def test_the_same_seed_gives_the_same_bytes_in_any_order(demo: Demo) -> None:
    assert demo.begin("--sandboxes", "7", "--workers", "1") == 0
    first = demo.results()
    shutil.rmtree(demo.run_dir)
    assert demo.begin("--sandboxes", "7", "--workers", "7") == 0
    assert demo.results() == first
    assert sorted(first) == [f"{index:05d}.json" for index in range(1, 8)]
    shutil.rmtree(demo.run_dir)
    assert demo.begin("--sandboxes", "7", "--seed", "1") == 0
    assert demo.results() != first


def test_a_result_holds_no_time_host_or_process(demo: Demo) -> None:
    demo.begin("--sandboxes", "1")
    (data,) = demo.results().values()
    names = {"index", "learning_rate", "seed", "policy", "episode"}
    assert set(json.loads(data)) == names | {"average", "best", "solved", "solved_at"}


def test_each_index_has_a_sandbox_of_its_own_and_all_are_closed(demo: Demo) -> None:
    demo.begin("--sandboxes", "5", "--workers", "2")
    assert len(demo.backend.made) == 5
    assert all(sandbox.closed for sandbox in demo.backend.made)


def test_a_killed_sandbox_is_one_error_and_the_others_finish(
    demo: Demo, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--sandboxes", "4", "--workers", "1")
    assert demo.begin(*flags, backend=KillingBackend()) == ExitCode.PARTLY_FAILED
    text = (demo.folder / "errors.log").read_text()
    assert text == "[sandbox 2] id=sb-00002\nended by signal 9\n\n"
    assert (demo.run_dir / "errors.log").read_text() == text
    assert sorted(demo.results()) == ["00001.json", "00003.json", "00004.json"]
    assert "sb-00002 error: ended by signal 9" in capsys.readouterr().out


def test_resume_runs_what_is_missing_and_removes_an_old_errors_log(demo: Demo) -> None:
    demo.begin("--sandboxes", "4", "--workers", "1", backend=KillingBackend())
    before = demo.results()
    assert demo.run("--resume") == 0
    assert len(demo.backend.made) == 1
    assert not (demo.folder / "errors.log").exists()
    assert not (demo.run_dir / "errors.log").exists()
    after = demo.results()
    assert {name: after[name] for name in before} == before
    shutil.rmtree(demo.run_dir)
    demo.begin("--sandboxes", "4")
    assert demo.results() == after


def test_a_finished_run_is_resumed_without_a_sandbox(demo: Demo) -> None:
    demo.begin("--sandboxes", "2")
    assert demo.run("--resume") == 0
    assert demo.backend.made == []


def test_resume_refuses_another_setting_and_another_program(
    demo: Demo, capsys: pytest.CaptureFixture[str]
) -> None:
    demo.begin("--sandboxes", "2")
    assert demo.run("--resume", "--episodes", "4") == ExitCode.CONFIGURATION
    assert "episodes 3, not 4" in capsys.readouterr().err
    (demo.run_dir / "program.py").write_text("print()")
    assert demo.run("--resume") == ExitCode.CONFIGURATION


def test_a_folder_with_a_run_is_not_begun_again(demo: Demo) -> None:
    demo.begin("--sandboxes", "1")
    assert demo.begin("--sandboxes", "1") == ExitCode.CONFIGURATION


def test_nothing_to_resume_and_a_program_that_does_not_parse_are_refused(demo: Demo) -> None:
    assert demo.run("--resume") == ExitCode.CONFIGURATION
    demo.task.write_text("def (")
    assert demo.begin() == ExitCode.CONFIGURATION
    demo.task.unlink()
    assert demo.begin() == ExitCode.CONFIGURATION
    assert not demo.run_dir.exists()


@pytest.mark.parametrize("flags", [["--sandboxes", "0"], ["--sandboxs", "3"], ["--seed", "x"]])
def test_a_wrong_command_line_ends_with_2(demo: Demo, flags: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        demo.run(*flags)
    assert stop.value.code == ExitCode.USAGE


def test_the_defaults_are_those_of_the_original(demo: Demo) -> None:
    demo.run("--policy", "controller", "--sandboxes", "1")
    recorded = json.loads((demo.run_dir / "fanout.json").read_text())
    assert (recorded["episodes"], recorded["timesteps"]) == (300, 50_000)


def test_a_program_without_a_line_or_with_an_error_fails_with_its_last_words(demo: Demo) -> None:
    demo.task.write_text("import sys\nprint('hello')")
    assert demo.begin("--sandboxes", "1") == ExitCode.PARTLY_FAILED
    assert "printed no line of JSON" in (demo.folder / "errors.log").read_text()
    shutil.rmtree(demo.run_dir)
    demo.task.write_text("import sys\nsys.exit('no \\x1b[31m luck')")
    demo.begin("--sandboxes", "1")
    assert "exit code 1: no ?[31m luck\n" in (demo.folder / "errors.log").read_text()


def test_a_second_result_with_other_bytes_is_refused(demo: Demo) -> None:
    demo.begin("--sandboxes", "1")
    (first,) = demo.results().values()
    save_result(FanoutPaths(demo.run_dir), 1, json.loads(first))
    with pytest.raises(FileError, match="differs from the result of a second run"):
        save_result(FanoutPaths(demo.run_dir), 1, {**json.loads(first), "average": 1.0})


def test_a_run_whose_program_cannot_be_written_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    paths, settings = FanoutPaths(tmp_path / "run"), FanoutSettings()
    with monkeypatch.context() as patch:
        patch.setattr(fanout_files, "write_atomic", full)
        with pytest.raises(OSError, match="No space"):
            begin_run(paths, settings, b"pass")
    begin_run(paths, settings, b"pass")
    assert paths.program.read_bytes() == b"pass"


def test_progress_is_written_before_the_sandbox_ends(demo: Demo) -> None:
    demo.begin("--sandboxes", "1")
    about = [event for event in demo.events() if event["source"]["kind"] == "sandbox"]
    kinds = [(event["event"], event["data"].get("state")) for event in about]
    assert kinds[:2] == [("state", "running"), ("progress", None)]
    assert kinds[-1] == ("state", "done")
    assert {event["source"]["index"] for event in about} == {1}


def test_the_records_tell_that_nothing_confined_the_programs(
    demo: Demo, capsys: pytest.CaptureFixture[str]
) -> None:
    backend = ChildBackend()
    backend.level = "none"
    assert demo.begin("--sandboxes", "1", backend=backend) == ExitCode.NOT_CONFINED
    demo.begin("--sandboxes", "1", "--allow-unsafe", backend=backend)
    started = next(e["data"] for e in demo.events() if e["data"].get("state") == "started")
    assert (started["isolation"], started["allow_unsafe"]) == ("none", True)
    assert started["backend"] == ChildBackend.name, "not the wish, such as auto"
    assert "NOT CONFINED" in capsys.readouterr().out


def test_no_escape_code_is_printed_where_there_is_no_terminal(
    demo: Demo, capsys: pytest.CaptureFixture[str]
) -> None:
    demo.begin("--sandboxes", "3")
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert [line for line in out.splitlines() if line.startswith("sb-00002")] == [
        line for line in out.splitlines() if "sb-00002" in line
    ]
    assert "sb-00002 done: average" in out


def test_a_full_disk_ends_the_run_with_9_and_keeps_what_is_finished(
    demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = run_batch.save_result

    def save_two(paths: object, index: int, result: dict[str, object]) -> None:
        if index > 2:
            raise OSError(28, os.strerror(28), "results")
        save(paths, index, result)

    monkeypatch.setattr(run_batch, "save_result", save_two)
    assert demo.begin("--sandboxes", "6", "--workers", "1") == ExitCode.FILES
    monkeypatch.undo()
    assert sorted(demo.results()) == ["00001.json", "00002.json"]
    assert all(sandbox.closed for sandbox in demo.backend.made)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_leaves_no_process_and_lists_the_errors_so_far(
    demo: Demo, number: signal.Signals
) -> None:
    pids = demo.folder / "pids"
    pids.mkdir()
    demo.task.write_text(
        "import os, signal, sys\nif sys.argv[1] == 'sb-00001': sys.exit('no luck')\n"
        f"open({str(pids)!r} + f'/{{os.getpid()}}', 'w').close()\nsignal.pause()"
    )
    script = (
        "from tests.fanout.interrupted_demo import main\n"
        f"main(['--run-dir', {str(demo.run_dir)!r}, '--task', {str(demo.task)!r},"
        " '--sandboxes', '3', '--workers', '2'])"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=demo.folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert until(lambda: len(list(pids.iterdir())) == 2)
        child.send_signal(number)
        _, err = child.communicate(timeout=PATIENCE_S)
    finally:
        child.kill()
    assert (child.returncode, err.decode().splitlines()[-1]) == (130, "interrupted")
    alive = [path.name for path in pids.iterdir() if Path("/proc", path.name).exists()]
    assert alive == []
    text = (demo.folder / "errors.log").read_text()
    assert text == "[sandbox 1] id=sb-00001\nexit code 1: no luck\n\n"
    assert demo.run("--resume", "--sandboxes", "4") == ExitCode.CONFIGURATION


@pytest.mark.parametrize("engine", ["slurm", "dask"])
@pytest.mark.parametrize("backend", ["daytona", "docker"])
def test_jobs_are_refused_a_backend_of_this_machine_alone(
    demo: Demo, capsys: pytest.CaptureFixture[str], engine: str, backend: str
) -> None:
    assert demo.begin("--engine", engine, "--backend", backend) == ExitCode.CONFIGURATION
    assert f"--engine {engine} runs on other machines" in capsys.readouterr().err
    assert not demo.run_dir.exists()


def test_a_delay_between_starts_is_refused_where_jobs_start(
    demo: Demo, capsys: pytest.CaptureFixture[str]
) -> None:
    assert demo.begin("--engine", "slurm", "--batch-delay", "3") == ExitCode.USAGE
    assert "--batch-delay 3 is for one machine" in capsys.readouterr().err


def test_an_attempt_without_its_engine_begins_no_run(
    demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(demo.folder))
    assert demo.begin("--engine", "slurm") == ExitCode.CONFIGURATION
    assert not demo.run_dir.exists()


def test_a_run_reads_this_machine_once_and_opens_one_backend(
    demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[BackendFacts] = []

    def read_facts() -> BackendFacts:
        read.append(no_facts())
        return read[-1]

    monkeypatch.setattr(backend_facts, "read_backend_facts", read_facts)
    assert demo.begin("--sandboxes", "3", "--workers", "1") == 0
    assert (len(read), len(demo.backend.opened)) == (1, 1)


def test_one_run_is_not_resumed_twice_at_once(
    demo: Demo, capsys: pytest.CaptureFixture[str]
) -> None:
    demo.begin("--sandboxes", "1")
    with hold_run(FanoutPaths(demo.run_dir)):
        assert demo.run("--resume") == ExitCode.CONFIGURATION
    assert f"another process runs {demo.run_dir}" in capsys.readouterr().err
    assert demo.run("--resume") == 0


class VendorBackend(ChildBackend):
    """Deletes what runs left, and keeps the labels that it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.deleted: list[str] = []

    async def delete_leftovers(self, run: str | None = None) -> int:
        self.deleted.append(str(run))
        return 2


def test_a_cleanup_deletes_by_the_label_of_runs_that_have_ended(
    demo: Demo, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = []
    for name in ("fanout-1", "fanout-2"):
        demo.run_dir = demo.folder / "runs" / name
        demo.begin("--sandboxes", "1")
        demo.run("--resume")
        labels.append(demo.backend.opened[0][1])
        assert labels[-1] == json.loads((demo.run_dir / "fanout.json").read_text())["name"]
    assert len(set(labels)) == 2
    older = demo.folder / "runs" / "fanout-0" / "fanout.json"
    older.parent.mkdir()
    older.write_text('{"task": "a word of another release"}')
    vendor = VendorBackend()
    demo.use(vendor)
    with hold_run(FanoutPaths(demo.run_dir)):
        assert run_entry(run_demo.main, ["--cleanup"]) == 0
    assert vendor.deleted == labels[:1]
    out = capsys.readouterr().out
    for left in (demo.run_dir, older.parent):
        assert f"the sandboxes of {left.relative_to(demo.folder)} are left alone" in out
    assert out.endswith("2 sandboxes of ended runs deleted\n")


class SilentBackend(ChildBackend):
    """Never answers."""

    async def create(self, spec: SandboxSpec) -> ChildSandbox:
        await asyncio.Event().wait()
        raise AssertionError(spec)


def test_a_backend_that_never_answers_is_an_error_of_each_sandbox(
    demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_batch, "CREATE_S", 0.05)
    assert demo.begin("--sandboxes", "2", backend=SilentBackend()) == ExitCode.PARTLY_FAILED
    text = (demo.folder / "errors.log").read_text()
    assert text.count("has not answered in 0.05 s") == 2


class KeptSandbox(ChildSandbox):
    """Ends, and says that it could not be deleted."""

    async def close(self) -> None:
        await super().close()
        raise SandboxError("the vendor answered 503")


class KeepingBackend(ChildBackend):
    """Makes sandboxes whose deletion fails."""

    async def create(self, spec: SandboxSpec) -> ChildSandbox:
        return KeptSandbox()


def test_a_sandbox_that_could_not_be_deleted_is_told(
    demo: Demo, capsys: pytest.CaptureFixture[str]
) -> None:
    demo.begin("--sandboxes", "1", backend=KeepingBackend())
    assert "could not be closed: the vendor answered 503" in capsys.readouterr().err


def test_the_demo_runs_in_containers(tmp_path: Path) -> None:
    program("bwrap", "bubblewrap")
    docker = FakeDocker(tmp_path / "docker")
    environ = {**docker.environ, "PYTHONPATH": str(ROOT)}
    environ.pop("DOCKER_HOST", None)
    options = "--backend docker --sandboxes 2 --episodes 100 --policy controller --run-dir run"
    argv = [sys.executable, "-m", "Daddy.run_demo", *options.split()]
    subprocess.run(argv, cwd=tmp_path, env=environ, check=True)
    assert len(list((tmp_path / "run" / "results").iterdir())) == 2
    assert len(docker.made()) == 2
    assert docker.live() == set()


def test_a_program_in_a_sandbox_can_import_gymnasium_whose_plugin_we_are(tmp_path: Path) -> None:
    program("bwrap", "bubblewrap")
    if ROOT.is_relative_to("/tmp"):
        pytest.skip("a sandbox has a /tmp of its own, which hides a checkout below /tmp")
    task = tmp_path / "task.py"
    task.write_text('import gymnasium, json\nprint(json.dumps({"episode": 1, "reward": 1.0}))\n')
    words = ["--sandboxes", "1", "--task", str(task), "--run-dir", "run", "--no-live"]
    argv = [sys.executable, "-m", "Daddy.run_demo", *words]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
