"""The choice of a backend: auto stays on the machine, and what confines nothing is refused."""

import shutil
import subprocess
from typing import Any

import pytest

from Daddy.core.errors import ConfigError, DaddyError, SandboxError, UsageError
from Daddy.sandbox.choose_backend import (
    BackendFacts,
    choose_backend,
    install_hint,
    require_isolation,
)
from Daddy.sandbox.sandbox_interfaces import Isolation

BWRAP = "/usr/bin/bwrap"
UBUNTU = BackendFacts(
    bwrap=BWRAP,
    bwrap_error="bwrap: setting up uid map: Permission denied",
    installer="apt",
    apparmor_restricts=True,
)


def chosen(facts: BackendFacts, requested: str = "auto", unsafe: bool = False) -> str:
    return choose_backend(requested, facts, allow_unsafe=unsafe).name


def refusal(facts: BackendFacts, requested: str = "auto", unsafe: bool = False) -> DaddyError:
    with pytest.raises(DaddyError) as caught:
        chosen(facts, requested, unsafe)
    return caught.value


def test_auto_takes_bubblewrap_where_it_starts() -> None:
    choice = choose_backend("auto", BackendFacts(bwrap=BWRAP, docker=True))
    assert (choice.name, choice.hint) == ("bubblewrap", "")


def test_auto_never_leaves_the_machine_and_names_the_flag_that_does() -> None:
    keys = frozenset({"DAYTONA_API_KEY"})
    choice = choose_backend("auto", BackendFacts(bwrap=BWRAP, keys=keys))
    assert choice.name == "bubblewrap"
    assert choice.hint == "DAYTONA_API_KEY is set: --backend daytona runs there"
    assert isinstance(refusal(BackendFacts(keys=keys, installer="apt")), SandboxError)
    assert chosen(BackendFacts(keys=keys), "daytona") == "daytona"


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        (BackendFacts(installer="apt"), "sudo apt install bubblewrap"),
        (BackendFacts(installer="dnf"), "sudo dnf install bubblewrap"),
        (
            BackendFacts(bwrap=BWRAP, bwrap_error="No permissions", userns_clone=False),
            "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        (
            BackendFacts(bwrap=BWRAP, bwrap_error="No space left on device", max_namespaces=0),
            "sudo sysctl -w user.max_user_namespaces=15000",
        ),
        (BackendFacts(system="Darwin"), "brew install --cask docker && open -a Docker"),
    ],
)
def test_a_machine_that_confines_nothing_gets_the_install_hint(
    facts: BackendFacts, line: str
) -> None:
    error = refusal(facts)
    assert isinstance(error, SandboxError)
    assert "nothing on this machine confines" in error.message
    assert error.fix == line
    assert chosen(facts, unsafe=True) == "process"


def test_the_line_for_ubuntu_writes_a_profile_for_the_program_that_is_there() -> None:
    error = refusal(UBUNTU)
    assert "AppArmor" in error.message
    head, _, rest = error.fix.partition(" | ")
    assert rest == "sudo tee /etc/apparmor.d/bwrap && sudo apparmor_parser -r /etc/apparmor.d/bwrap"
    printed = subprocess.run(["sh", "-c", head], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines()[-1] == (
        "profile bwrap /usr/bin/bwrap flags=(unconfined) { userns, }"
    )
    if parser := shutil.which("apparmor_parser"):
        subprocess.run([parser, "-QK"], input=printed, text=True, check=True)


def test_a_start_that_fails_for_another_reason_shows_the_error_of_bubblewrap() -> None:
    reason, line = install_hint(BackendFacts(bwrap=BWRAP, bwrap_error="bwrap: No such device"))
    assert "No such device" in reason
    assert line.startswith(BWRAP)


@pytest.mark.parametrize("name", ["docker", "apptainer"])
def test_auto_takes_what_confines_partly_where_there_is_nothing_better(name: str) -> None:
    facts = BackendFacts(**{name: True})
    for requested in ("auto", name):
        assert chosen(facts, requested) == name


def test_plain_processes_are_taken_by_name_and_by_auto_with_the_persons_word_only() -> None:
    assert chosen(BackendFacts(bwrap=BWRAP), "process") == "process"
    assert chosen(BackendFacts(), unsafe=True) == "process"
    with pytest.raises(SandboxError):
        choose_backend("auto", BackendFacts())


def test_an_absent_engine_or_key_is_a_setting_that_cannot_be_met() -> None:
    for requested, word in (
        ("daytona", "DAYTONA_API_KEY"),
        ("docker", "Docker"),
        ("apptainer", "Apptainer"),
    ):
        error = refusal(BackendFacts(bwrap=BWRAP), requested, unsafe=True)
        assert isinstance(error, ConfigError)
        assert word in error.message
        assert "--backend auto" in error.fix


def test_bubblewrap_by_name_is_not_replaced_by_another() -> None:
    error = refusal(BackendFacts(docker=True, installer="apt"), "bubblewrap", unsafe=True)
    assert isinstance(error, SandboxError)
    assert error.fix == "sudo apt install bubblewrap"


def test_an_unknown_backend_is_a_wrong_command_line() -> None:
    error = refusal(BackendFacts(bwrap=BWRAP), "podman")
    assert isinstance(error, UsageError)
    assert "'podman'" in error.message


@pytest.mark.parametrize(
    ("level", "own", "generated"),
    [
        ("confined", True, True),
        ("vendor", True, True),
        ("partly", True, False),
        ("none", False, False),
    ],
)
def test_less_confinement_than_the_code_needs_takes_the_persons_word(
    level: Any, own: bool, generated: bool
) -> None:
    for model, enough in ((False, own), (True, generated)):
        require_isolation("this-one", Isolation(level), model, allow_unsafe=True)
        if enough:
            require_isolation("this-one", Isolation(level), model, allow_unsafe=False)
            continue
        with pytest.raises(SandboxError, match="this-one") as caught:
            require_isolation("this-one", Isolation(level), model, allow_unsafe=False)
        assert "--allow-unsafe" in caught.value.fix


def test_the_refusal_names_what_is_missing() -> None:
    with pytest.raises(SandboxError, match="missing: memory, devices"):
        require_isolation("docker", Isolation("partly", ("memory", "devices")), True, False)
