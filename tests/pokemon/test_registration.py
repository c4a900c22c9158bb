import sys
from pathlib import Path

import pytest

from Daddy.core.run_subprocess import Completed, run_command
from Daddy.pokemon.registration import ENV_ID, register
from tests.pokemon.libraries import GYMNASIUMS, environ_with

MAKE = """
import sys, gymnasium
assert not any(name.startswith("pyboy") for name in sys.modules), "registration is not light"
env = gymnasium.make(sys.argv[1])
env.reset(seed=0)
print(env.spec.id)
"""
GUIDE = Path(__file__).parents[2] / "docs" / "guide.md"


def make(major: str, name: str, code: str = MAKE) -> Completed:
    argv = [sys.executable, "-c", code, name]
    return run_command(argv, 120, env=environ_with(GYMNASIUMS[major]))


@pytest.mark.parametrize("major", GYMNASIUMS)
def test_gymnasium_makes_the_environment_of_the_module_in_its_name(major: str) -> None:
    done = make(major, f"Daddy.pokemon.registration:{ENV_ID}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith(ENV_ID)


@pytest.mark.parametrize("major", GYMNASIUMS)
def test_after_importing_us_the_plain_id_is_enough(major: str) -> None:
    done = make(major, ENV_ID, "import Daddy.pokemon.registration" + MAKE)
    assert done.returncode == 0, done.stderr


def test_the_entry_point_serves_gymnasium_0_29() -> None:
    done = make("0.29", ENV_ID)
    assert done.returncode == 0, done.stderr


def test_the_guide_names_the_remedy_where_gymnasium_1_finds_no_namespace() -> None:
    done = make("1", ENV_ID)
    assert done.returncode != 0
    row = next(row for row in GUIDE.read_text("utf-8").splitlines() if "Namespace Daddy" in row)
    assert row.split("`")[1] in done.stderr
    assert f"`Daddy.pokemon.registration:{ENV_ID}`" in row


def test_registering_twice_is_harmless() -> None:
    register()
    register()
