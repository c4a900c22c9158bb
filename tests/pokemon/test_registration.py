from __future__ import annotations

import sys

from Daddy.core.process import run
from Daddy.pokemon.registration import ENV_ID, register

MAKE = f"""
import sys, gymnasium
assert not any(name.startswith("pyboy") for name in sys.modules), "registration is not light"
env = gymnasium.make("{ENV_ID}")
env.reset(seed=0)
print(env.spec.id)
"""


def test_gymnasium_makes_the_environment_without_importing_us_first() -> None:
    done = run([sys.executable, "-c", MAKE], 60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith(ENV_ID)


def test_registering_twice_is_harmless() -> None:
    register()
    register()
