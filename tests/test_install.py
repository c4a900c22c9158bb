"""``scripts/install``: torch's build, development tools, and the stamp; pip is a recorder."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S

CHECKOUT = Path(__file__).resolve().parents[1]
CPU_INDEX = "--index-url https://download.pytorch.org/whl/cpu"
PYTHON = """\
#!{bash}
case "$*" in
  --version) echo Python 3.11.9 ;;
  "-c "*urlopen*) exec "{python}" -c 'import sys; sys.exit({unreachable})' ;;
  "-m pip install "*)
    echo "$*" >>"{log}"
    cuda="'13.0'"
    case "$*" in *"/whl/cpu "*) cuda=None ;; esac
    file=.venv/lib/python3.11/site-packages/torch/version.py
    case "$*" in *torch) rm -f $file ;; esac
    [ -e $file ] || echo "cuda: Optional[str] = $cuda" >$file ;;
  *) exec "{python}" "$@" ;;
esac
"""
"""Stands for a venv's Python: its pip records calls and "installs" CUDA's build unless told."""
TOOLS = (
    "bash",
    "mv",
    "tr",
    "sed",
    "dirname",
    "cat",
    "cksum",
    "awk",
    "rm",
    "grep",
    "du",
    "cut",
    "ls",
)


class Machine:
    """A checkout and the programs that a person finds on their PATH."""

    def __init__(self, folder: Path) -> None:
        self.checkout, self.bin, self.log = folder / "checkout", folder / "bin", folder / "pip.log"
        for name in ("scripts", "cluster"):
            shutil.copytree(CHECKOUT / name, self.checkout / name, symlinks=True)
        for name in ("pyproject.toml", "constraints.txt"):
            shutil.copy(CHECKOUT / name, self.checkout)
        for name in ("__init__.py", "core"):
            copy = shutil.copytree if name == "core" else shutil.copy
            (self.checkout / "Daddy").mkdir(exist_ok=True)
            copy(CHECKOUT / "Daddy" / name, self.checkout / "Daddy" / name)
        self.bin.mkdir()
        for name in TOOLS:
            (self.bin / name).symlink_to(shutil.which(name) or name)
        self.program("uname", "echo Linux")
        self.site = self.checkout / ".venv" / "lib" / "python3.11" / "site-packages" / "torch"
        self.site.mkdir(parents=True)
        (self.checkout / ".venv" / "bin").mkdir()
        (self.checkout / ".venv" / "pyvenv.cfg").touch()
        self.reaches_the_cpu_index()

    def program(self, name: str, code: str = "exit 0") -> None:
        (self.bin / name).write_text(f"#!{shutil.which('bash')}\n{code}\n")
        (self.bin / name).chmod(0o755)

    def reaches_the_cpu_index(self, *, yes: bool = True) -> None:
        python = self.checkout / ".venv" / "bin" / "python"
        facts = {"bash": shutil.which("bash"), "python": sys.executable, "log": self.log}
        python.write_text(PYTHON.format(**facts, unreachable=not yes))
        python.chmod(0o755)

    def types(self, script: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a script; its stderr holds the lines that the person reads."""
        self.log.unlink(missing_ok=True)
        return subprocess.run(
            [str(self.checkout / "scripts" / script), *words],
            env={
                "PATH": str(self.bin),
                "HOME": str(self.checkout.parent),
                "DADDY_PYTHON": sys.executable,
                **variables,
            },
            check=False, capture_output=True, text=True, timeout=PATIENCE_S,
        )  # fmt: skip

    @property
    def asked(self) -> list[str]:
        """The arguments of each call of pip since the script began."""
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU")
@pytest.mark.parametrize("variables", [{}, {"DADDY_SITE": "testbed"}, {"DADDY_SITE": "unheard-of"}])
def test_without_gpu_slurm_and_cuda_torch_is_the_cpu_build(
    machine: Machine, variables: dict[str, str]
) -> None:
    done = machine.types("install", **variables)
    assert done.returncode == 0, done.stderr
    assert CPU_INDEX in machine.asked[0]
    assert "the CPU build, about 0.2 GB to download: no GPU, no Slurm" in done.stderr
    assert "DADDY_TORCH=cuda" in done.stderr
    assert "installed: torch's cpu build; .venv takes" in done.stderr


@pytest.mark.parametrize(
    ("program", "variables", "reason"),
    [
        ("nvidia-smi", {}, "an NVIDIA GPU"),
        ("sbatch", {}, "Slurm's jobs may have GPUs"),
        ("true", {"DADDY_SITE": "engr"}, "the site profile engr has cuda"),
        ("true", {"DADDY_TORCH": "cuda"}, "DADDY_TORCH says so"),
    ],
)
def test_a_machine_whose_jobs_may_have_gpus_gets_cuda(
    machine: Machine, program: str, variables: dict[str, str], reason: str
) -> None:
    machine.program(program)
    done = machine.types("install", **variables)
    assert done.returncode == 0, done.stderr
    assert "whl/cpu" not in "".join(machine.asked)
    assert "CUDA's build, about 3 GB to download" in done.stderr or "NVIDIA" in done.stderr
    assert reason in done.stderr or Path("/dev/nvidiactl").exists()
    assert "installed: torch's cuda build" in done.stderr


def test_daddy_torch_decides_and_changes_an_installed_build(machine: Machine) -> None:
    machine.program("nvidia-smi")
    assert CPU_INDEX in (machine.types("install", DADDY_TORCH="cpu"), machine.asked)[1][0]
    assert (machine.types("install").returncode, machine.asked) == (0, [])
    done = machine.types("install", DADDY_TORCH="cuda")
    assert "--force-reinstall --no-deps torch" in machine.asked[0]
    assert "installed: torch's cuda build" in done.stderr
    refused = machine.types("install", DADDY_TORCH="gpu")
    assert (refused.returncode, machine.asked) == (3, [])
    assert "DADDY_TORCH is 'gpu'" in refused.stderr


def test_an_unreachable_cpu_index_is_said_and_pips_own_is_taken(machine: Machine) -> None:
    machine.reaches_the_cpu_index(yes=False)
    wish = {"DADDY_TORCH": "cpu"}
    done = machine.types("install", **wish)
    assert "CPU index cannot be reached" in done.stderr
    assert [call for call in machine.asked if "whl/cpu" in call] == []
    assert done.returncode == 3, "its own index had CUDA's build"
    assert "pip's index has torch's cuda build" in done.stderr
    assert machine.types("install").returncode == 0, "without a wish any build is taken"


def test_development_tools_come_with_dev_alone(machine: Machine) -> None:
    assert machine.types("install").returncode == 0
    assert machine.asked[-1].endswith(" -e .[pufferlib]")
    assert (machine.types("install").returncode, machine.asked) == (0, [])
    assert machine.types("install", "--dev").returncode == 0
    assert [call.rsplit(" ", 1)[1] for call in machine.asked] == [
        ".[dev,search,wandb,grpo,scale,demo,pufferlib]"
    ]
    for words in ((), ("--dev",)):
        assert (machine.types("install", *words).returncode, machine.asked) == (0, [])


@pytest.mark.parametrize("script", ["check", "test"])
def test_check_and_test_complete_an_installation_without_tools(
    machine: Machine, script: str
) -> None:
    assert machine.types("install").returncode == 0
    machine.types(script)  # then it fails for want of the real tools
    own = [call for call in machine.asked if "--target" not in call]
    extras = [call.rsplit(" ", 1)[1] for call in own]
    assert extras == [".[dev,search,wandb,grpo,scale,demo,pufferlib]"]


def test_the_stamp_of_the_release_before_counts_as_one_with_tools(machine: Machine) -> None:
    folder, lines = machine.checkout, "{ cat pyproject.toml constraints.txt | cksum; pwd; }"
    sums, place = subprocess.check_output(["sh", "-c", lines], cwd=folder, text=True).splitlines()
    (folder / ".venv" / ".daddy-installed").write_text(f"{sums}\nPython 3.11.9\n{place}\n")
    assert (machine.types("install", "--dev").returncode, machine.asked) == (0, [])


def test_an_unknown_option_of_the_tests_is_refused_before_anything_is_fetched(
    machine: Machine,
) -> None:
    done = machine.types("test", "--bogus")
    assert done.returncode == 2, done.stderr
    assert "unrecognized arguments: --bogus" in done.stderr
    assert "apt" not in done.stderr + done.stdout
    assert "tests are skipped" not in done.stderr


def package(site: Path, name: str, version: str = "1.0") -> Path:
    """Install a package of two modules as pip records it; return its folder."""
    record, folder = site / f"{name}-{version}.dist-info" / "RECORD", site / name
    record.parent.mkdir()
    folder.mkdir(exist_ok=True)
    own = [f"{record.parent.name}/RECORD,,", f"{name}/__pycache__/a.cpython-311.pyc,,"]
    for module in ("a.py", "b,c.py"):
        (folder / module).touch()
        own.append(f'"{name}/{module}",sha256=x,0')
    record.write_text("\n".join(own) + "\n")
    return folder


@pytest.mark.parametrize("purged", ["file", "record", "package"])
def test_a_package_that_lacks_files_is_installed_again(machine: Machine, purged: str) -> None:
    site = machine.site.parent
    package(site, "whole")
    folder = package(site, "purged")
    assert machine.types("install").returncode == 0
    assert (machine.types("install").returncode, machine.asked) == (0, [])
    if purged == "file":
        (folder / "b,c.py").unlink()
    if purged == "package":
        shutil.rmtree(folder)
    if purged != "file":
        shutil.rmtree(site / "purged-1.0.dist-info")
    done = machine.types("install")
    assert "files of these packages are missing (a purge of old files?): purged-1.0" in done.stderr
    assert machine.asked[-1].endswith(" -e .[pufferlib]"), "pip installs what it does not know"
    assert not (site / "purged-1.0.dist-info").exists()
    assert (site / "whole-1.0.dist-info").exists()


def test_a_torch_that_lacks_files_keeps_its_build(machine: Machine) -> None:
    machine.program("nvidia-smi")
    package(machine.site.parent, "torch")
    assert machine.types("install", DADDY_TORCH="cpu").returncode == 0
    (machine.site / "a.py").unlink()
    done = machine.types("install")
    assert CPU_INDEX in machine.asked[0], done.stderr
    assert "it was that build before" in done.stderr


def test_a_package_that_pip_cannot_complete_is_told(machine: Machine) -> None:
    folder = package(machine.site.parent, "purged")
    assert machine.types("install").returncode == 0
    shutil.rmtree(folder)
    machine.types("install")
    again = package(machine.site.parent, "purged")
    (again / "a.py").unlink()
    recorder = machine.checkout / ".venv" / "bin" / "python"
    record = again.parent / "purged-1.0.dist-info"
    lost = f"mkdir {record}; echo purged/a.py >{record}/RECORD"
    recorder.write_text(recorder.read_text().replace('echo "$*"', f'{lost}; echo "$*"'))
    (machine.bin / "mkdir").symlink_to(shutil.which("mkdir") or "mkdir")
    done = machine.types("install")
    assert done.returncode == 9
    assert "files are still missing: purged-1.0" in done.stderr
