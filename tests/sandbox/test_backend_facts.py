"""Facts of this machine: a program that is there but does not start does not count."""

import sys
from pathlib import Path

import pytest

from Daddy.core.errors import SandboxError
from Daddy.sandbox.backend_facts import open_backend, read_backend_facts
from Daddy.sandbox.choose_backend import choose_backend
from tests.components import program


def put_program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("DAYTONA_API_KEY", raising=False)
    return tmp_path


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap needs Linux")
def test_bubblewrap_starts_here_and_is_chosen() -> None:
    program("bwrap", "bubblewrap")
    facts = read_backend_facts()
    assert (facts.system, facts.bwrap_error) == ("Linux", "")
    assert choose_backend("auto", facts).name == "bubblewrap"


def test_a_machine_without_programs_has_nothing(programs: Path) -> None:
    facts = read_backend_facts()
    assert (facts.bwrap, facts.apptainer, facts.docker, facts.installer) == ("", False, False, "")
    assert facts.keys == frozenset()
    with pytest.raises(SandboxError):
        choose_backend("auto", facts)


def test_programs_that_are_there_and_fail_are_known(programs: Path) -> None:
    put_program(programs, "bwrap", "echo 'bwrap: setting up uid map: \033[1mdenied' >&2; exit 1")
    put_program(programs, "docker", "echo 'Cannot connect to the daemon' >&2; exit 1")
    put_program(programs, "dnf", "exit 0")
    facts = read_backend_facts()
    assert facts.bwrap_error.startswith("bwrap: setting up uid map: ")
    assert "\033" not in facts.bwrap_error
    assert (facts.docker, facts.installer) == (False, "dnf")


@pytest.mark.parametrize("name", ["apptainer", "singularity"])
def test_apptainer_counts_under_its_old_name_too(programs: Path, name: str) -> None:
    put_program(programs, name, "exit 0")
    assert choose_backend("apptainer", read_backend_facts()).name == "apptainer"


def test_an_engine_that_answers_and_a_key_are_known_and_the_key_is_not_kept(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_program(programs, "docker", "exit 0")
    monkeypatch.setenv("DAYTONA_API_KEY", "dtn_secret")
    facts = read_backend_facts()
    assert facts.docker
    assert facts.keys == {"DAYTONA_API_KEY"}
    assert "dtn_secret" not in repr(facts)


@pytest.mark.parametrize("name", ["docker", "daytona"])
def test_sandboxes_that_outlive_their_program_get_the_label_of_the_run(name: str) -> None:
    assert vars(open_backend(name, "fanout-1"))["_run"] == "fanout-1"
