"""Soaks the controller on a real Slurm test cluster while faults are injected.

Runs four slots with jobs of one minute and checks Slurm's own log. The learner is the soak's own
(``learner.py``); launcher, leases, releases, controller and Slurm are the real ones. The run is on
a file system of its own, which only root can mount: without root no disk is filled.
"""

import contextlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from Daddy.cluster.orchestrator.control_parameters import derive_policy, file_poll_seconds
from Daddy.cluster.orchestrator.ledger_file import read_entries
from Daddy.core.errors import SchedulerError
from Daddy.core.lease import read_lease
from Daddy.core.load_config import CHECKOUT
from Daddy.core.run_paths import RunPaths
from Daddy.core.run_subprocess import Completed
from Daddy.core.run_subprocess import run_command as run_child
from Daddy.core.settings import Config
from scripts.benches.testbed import COMMANDS, Cluster, cluster
from scripts.soaks.injector import Injector
from scripts.soaks.judge import Evidence, judge, render_figures
from scripts.soaks.records import Fault, read_completions, read_diaries
from scripts.soaks.schedule_faults import LASTS_S, plan_faults
from scripts.soaks.usage import Usage

PLACES = 4
_DISK_BYTES = 2 << 30
"""Size of the run's file system, of which ``start`` wants about a half."""
_SQUEUE = '#!/bin/sh\n[ -e {flag} ] && exit 0\nexec {real} "$@"\n'
_PROLOG = "#!/bin/sh\n! [ -e {flag}-$SLURMD_NODENAME ]\n"
_PROGRESS_S = 15.0
_CRON = "*/5 * * * * "
_FOREIGN = ("SLURM_", "SBATCH_", "SQUEUE_", "DADDY_")


@dataclass
class Stage:
    """Runs the commands of a user with one run on one test cluster."""

    testbed: Cluster
    folder: Path
    usage: Usage = field(init=False)
    begun: float = 0.0
    last_line: float = 0.0
    faults: list[Fault] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.run = RunPaths(self.folder / "run")
        self.diaries = self.folder / "diaries"
        self.usage = Usage(self.run.status, self.run.calls)
        self.checkout = _small_checkout(self.folder)
        self.config = self.folder / "soak.json"
        setup = f"! [ -e {self.flag('setup')} ] || exit 127"
        self.config.write_text(json.dumps(_settings(self.run.root, setup)))
        env = {k: v for k, v in self.testbed.env.items() if not k.startswith(_FOREIGN)}
        env["SLURM_CONF"] = self.testbed.env["SLURM_CONF"]
        path = f"{self._shim_squeue(env['PATH'])}:{env['PATH']}"
        self.env = {**env, "PATH": path, "PYTHONPATH": str(self.checkout)}
        self._add_prolog()

    def flag(self, name: str) -> Path:
        """Return the file that lets this part of the site fail while it exists."""
        return self.folder / f"fail-{name}"

    def _shim_squeue(self, path: str) -> Path:
        shim = self.folder / "bin" / "squeue"
        shim.parent.mkdir()
        real = shutil.which("squeue", path=path)
        shim.write_text(_SQUEUE.format(flag=self.flag("listing"), real=real))
        shim.chmod(0o755)
        return shim.parent

    def _add_prolog(self) -> None:
        prolog = self.folder / "prolog"
        prolog.write_text(_PROLOG.format(flag=self.flag("prolog")))
        prolog.chmod(0o755)
        with Path(self.env["SLURM_CONF"]).open("a") as conf:
            conf.write(f"Prolog={prolog}\n")
        self.ask_slurm("scontrol", "reconfigure")

    def run_command(self, *argv: str, timeout_s: float = 120.0) -> Completed:
        """Run ``run_controller ARGV``."""
        module = "Daddy.cluster.orchestrator.run_controller"
        command = [sys.executable, "-m", module, *argv, "--config", str(self.config)]
        return run_child(command, timeout_s, env=self.env, cwd=self.folder)

    def start(self) -> None:
        """Run ``start``."""
        result = self.run_command("start")
        if result.returncode:
            raise SchedulerError(f"start failed: {result.stderr.strip()[-600:]}")

    def ensure_by_cron(self) -> None:
        """Run the line that ``ensure --print-units`` prints, in cron's environment."""
        units = self.run_command("ensure", "--print-units").stdout.splitlines()
        line = next(line.removeprefix(_CRON) for line in units if line.startswith(_CRON))
        env = {"HOME": os.environ.get("HOME", "/"), "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}
        result = run_child(["/bin/sh", "-c", line.replace("\\%", "%")], 120.0, env=env)
        if result.returncode not in (0, 5):
            raise SchedulerError(
                f"ensure failed: {(self.run.logs / 'ensure.log').read_text()[-400:]}"
            )

    def resize_disk(self, *, full: bool) -> None:
        """Give the run's file system no room for more, or its usual size."""
        deadline = time.monotonic() + 10.0  # a size below that of its files is refused
        while True:
            size = shutil.disk_usage(self.run.root).used if full else _DISK_BYTES
            argv = ["mount", "-o", f"remount,size={size}", str(self.run.root)]
            if not (result := run_child(argv, 10.0)).returncode:
                return
            if time.monotonic() > deadline:
                raise SchedulerError(f"the disk is not resized: {result.stderr.strip()}")

    def ask_slurm(self, *argv: str) -> str:
        """Return the output of a Slurm command, as its administrator."""
        return self.testbed.out(*argv)

    def mend(self) -> None:
        """Start ended daemons of the test cluster again."""
        argv = [str(COMMANDS / "up"), "--dir", str(self.testbed.folder), "--json"]
        result = run_child(argv, 120.0)
        if result.returncode:
            raise SchedulerError(f"the test cluster does not start: {result.stderr[-400:]}")

    def wait(self, seconds: float) -> None:
        """Wait; meanwhile sample the controller and print progress."""
        until = time.monotonic() + seconds
        while (remaining := until - time.monotonic()) > 0:
            time.sleep(min(0.25, remaining))
            view = read_lease(self.run.controller_lease)
            if view is not None and view.ended is None:
                self.usage.sample(int(view.holder.get("pid", 0)))
            if time.monotonic() - self.last_line > _PROGRESS_S:
                self.print_progress("")

    def print_progress(self, event: str) -> None:
        """Print one line of progress."""
        self.last_line = time.monotonic()
        filled = sum(1 for n in range(PLACES) if _held(self.run, n))
        ended = self.completions().count("\n")
        at = int(time.time() - self.begun) if self.begun else 0
        text = f"{at // 60:3d}:{at % 60:02d}  {filled} of {PLACES} slots held, {ended} jobs ended"
        print(f"{text}{'  · ' + event if event else ''}", flush=True)

    def completions(self) -> str:
        """Return slurmctld's job completion log."""
        path = self.testbed.folder / "log" / "jobcomp.txt"
        return path.read_text() if path.exists() else ""


def _held(run: RunPaths, number: int) -> bool:
    view = read_lease(run.slot(number).lease)
    return view is not None and view.ended is None


def _small_checkout(folder: Path) -> Path:
    checkout = folder / "checkout"
    leave = shutil.ignore_patterns("__pycache__")
    shutil.copytree(CHECKOUT / "Daddy", checkout / "Daddy", ignore=leave)
    shutil.copy(Path(__file__).with_name("learner.py"), checkout / "Daddy" / "train_slim.py")
    return checkout


def _settings(run_dir: Path, setup: str) -> dict[str, object]:
    """Return the run's settings: defaults but for short jobs."""
    return {
        "run_name": "soak",
        "run_dir": str(run_dir),
        "training": {"workload": "cartpole", "device": "cpu", "stream": False, "total_steps": 0},
        "slurm": {
            "time_limit": "0:01:00",
            "max_running": PLACES,
            "partition": "gpu-linuxlab",
            "setup": [setup],
        },
        "controller": {"executor": "slurm"},
    }


def run(minutes: float, seed: int, keep: Path | None) -> dict[str, object]:
    """Run the soak; end the run and the test cluster in any case."""
    folder = Path(tempfile.mkdtemp(prefix=f"daddy-soak-{os.getpid()}-", dir="/tmp"))
    try:
        # mounted before the nodes' mount namespaces are made, so that jobs see it
        with _own_disk(folder / "run") as own, cluster() as testbed:
            stage = Stage(testbed, folder)
            kinds = [kind for kind in LASTS_S if own or kind != "full disk"]
            try:
                return _soak(stage, 60.0 * minutes, seed, kinds)
            finally:
                _end(stage)
                if keep is not None:
                    _keep(stage, keep)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _own_disk(folder: Path) -> Iterator[bool]:
    """Mount a file system in memory at ``folder``; yield False where that is refused."""
    folder.mkdir()
    options = ("-t", "tmpfs", "-o", f"size={_DISK_BYTES},mode=755", "daddy-soak", str(folder))
    try:
        mounted = not run_child(["mount", *options], 10.0).returncode
        if not mounted:
            print("no file system can be mounted here (root can): no disk is filled", flush=True)
        yield mounted
    finally:
        if folder.is_mount():
            run_child(["umount", "--lazy", str(folder)], 10.0)


def _soak(stage: Stage, seconds: float, seed: int, kinds: Sequence[str]) -> dict[str, object]:
    rng = random.Random(seed)
    injector = Injector(stage.testbed.folder, stage, rng, stage.faults)
    stage.start()
    _until(stage, lambda: all(_held(stage.run, n) for n in range(PLACES)), 90.0)
    stage.begun = begun = time.time()
    for at, kind in plan_faults(rng, seconds, kinds):
        stage.wait(begun + at - time.time())
        stage.print_progress(kind)
        injector.inject(kind)
    stage.wait(begun + seconds - time.time())
    ended = time.time()
    stage.usage.count_calls()
    stage.print_progress("stop")
    _stop(stage)
    return _evaluate(stage, injector, begun, ended)


def _until(stage: Stage, condition: Callable[[], bool], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            stage.print_progress("")
            raise SchedulerError("the run did not fill its slots in time")
        stage.wait(0.25)


def _stop(stage: Stage) -> None:
    result = stage.run_command("stop", timeout_s=240.0)
    if result.returncode:
        raise SchedulerError(f"stop failed: {result.stderr.strip()[-400:]}")


def _evaluate(stage: Stage, injector: Injector, begun: float, ended: float) -> dict[str, object]:
    log = (stage.testbed.folder / "log" / "slurmctld.log").read_text(errors="replace")
    evidence = Evidence(
        begun=begun,
        ended=ended,
        places=PLACES,
        runs=read_completions(stage.completions(), log, "daddy-soak-"),
        diaries=read_diaries(stage.diaries),
        faults=injector.faults,
        known=frozenset(entry.token for entry in read_entries(stage.run.ledger)),
        left_over=_left_over(stage),
    )
    figures = judge(evidence)
    poll_s = file_poll_seconds(Config(), "slurm")
    quiet_s = derive_policy(Config(), "slurm").quiet_pass_s
    usage = stage.usage.figures(poll_s, quiet_s, int(str(figures["handovers"])))
    broken = list(figures.pop("broken"))  # type: ignore[call-overload]
    for name, most in (("peak_rss_mb", 60.0), ("cpu_s_per_day", 60.0)):
        if float(str(usage[name])) > most:
            broken.append(f"{name} is {usage[name]}, {most:g} allowed")
    figures = {**figures, "controller": usage, "broken": broken}
    print("\n".join(render_figures(figures)), flush=True)
    return figures


def _left_over(stage: Stage) -> list[str]:
    """List this run's jobs in Slurm and running learners after ``stop``."""
    time.sleep(3.0)  # KillWait of jobs that were just cancelled
    rows = stage.testbed.out("squeue", "--noheader", "--format=%j %T").splitlines()
    left = [f"job {row} is still there" for row in rows if row.startswith("daddy-soak-")]
    for diary in read_diaries(stage.diaries):
        command = Path(f"/proc/{diary.pid}/cmdline")
        if command.exists() and diary.token.encode() in command.read_bytes():
            left.append(f"learner {diary.token} is still there")
    return left


def _end(stage: Stage) -> None:
    """End the run in any state; the test cluster's ``down`` ends the remaining processes."""
    stage.print_progress("ending all")
    if stage.run.intent.exists():
        stage.run_command("stop", "--now", timeout_s=120.0)


def _keep(stage: Stage, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    stage.usage.write(folder / "usage.jsonl")
    faults = [asdict(fault) for fault in stage.faults]
    (folder / "faults.json").write_text(json.dumps(faults, indent=1) + "\n")
    for path in (stage.run.ledger, stage.run.logs / "controller.log"):
        if path.exists():
            shutil.copy(path, folder)
    for name in ("jobcomp.txt", "slurmctld.log"):
        shutil.copy(stage.testbed.folder / "log" / name, folder)
    root = stage.run.root
    for source in (stage.diaries, root / "events", root / "logs", root / "controller"):
        if source.is_dir():
            shutil.copytree(source, folder / source.name, dirs_exist_ok=True)
