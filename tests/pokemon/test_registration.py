from __future__ import annotations

import sys

from gymnasium.envs import registration as gymnasium_registration

from Daddy.core.run_subprocess import run_command
from Daddy.pokemon.registration import ENV_ID, register

MAKE = """
import sys, gymnasium
assert not any(name.startswith("pyboy") for name in sys.modules), "registration is not light"
env = gymnasium.make(sys.argv[1])
env.reset(seed=0)
print(env.spec.id)
"""
HAS_PLUGINS = hasattr(gymnasium_registration, "load_plugin_envs")
"""gymnasium 1 has no such entry points; there the id names the module that registers it."""


def test_gymnasium_makes_the_environment_without_importing_us_first() -> None:
    name = ENV_ID if HAS_PLUGINS else f"Daddy.pokemon.registration:{ENV_ID}"
    done = run_command([sys.executable, "-c", MAKE, name], 60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith(ENV_ID)


def test_importing_us_first_is_as_good() -> None:
    code = "import Daddy.pokemon.registration" + MAKE
    done = run_command([sys.executable, "-c", code, ENV_ID], 60)
    assert done.returncode == 0, done.stderr


def test_registering_twice_is_harmless() -> None:
    register()
    register()
