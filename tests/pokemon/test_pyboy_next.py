"""A newer pyboy must play, save and load as the pinned one does (decision 42).

`PYBOY_NEXT=2.8.1 pytest tests/pokemon/test_pyboy_next.py` installs that version into a temporary
folder and compares it; without the variable the installed one is compared with itself.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE_S

CHECKOUT = Path(__file__).resolve().parents[2]
PLAY = """
import hashlib, json, random
from Daddy.core.errors import RomError
from Daddy.pokemon.emulator import BUTTONS, PYBOY_VERSION, Emulator
from Daddy.pokemon.find_rom import cartridge_path
from Daddy.pokemon.ram_map import BLOCKS, RAM_START, WHOLE
from tests.pokemon.starts.test_state_file_formats import states

def play(emulator, seed, steps=200):
    keys, memory, pictures = random.Random(seed), hashlib.sha256(), hashlib.sha256()
    for _ in range(steps):
        emulator.press(keys.choice(BUTTONS))
        image = bytes(emulator.ram(WHOLE))
        memory.update(b"".join(image[a - RAM_START : b - RAM_START] for a, b in BLOCKS))
        pictures.update(emulator.packed_screen())
    return {"memory": memory.hexdigest(), "pictures": pictures.hexdigest()}

def loads(state):
    emulator = Emulator(rom)
    try:
        emulator.restore_state(state)
    except RomError:
        return None
    return play(emulator, 1, 20)

rom = cartridge_path().read_bytes()
first, second = Emulator(rom), Emulator(rom)
played = play(first, 0)
second.restore_state(first.dump_state())
print(json.dumps({
    "version": PYBOY_VERSION, "played": played,
    "goes_on": play(first, 1), "goes_on_elsewhere": play(second, 1),
    "loads": {name: found for name, state in states().items() if (found := loads(state))},
}))
"""


def play_in(folder: Path) -> dict[str, Any]:
    """Play in a process that imports pyboy from ``folder``, if it is there."""
    environ = {**os.environ, "PYTHONPATH": f"{folder}:{CHECKOUT}"}
    argv = [sys.executable, "-W", "ignore", "-c", PLAY]
    child = subprocess.run(
        argv, env=environ, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S,
        check=False,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr
    return dict(json.loads(child.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def pinned(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    return play_in(tmp_path_factory.mktemp("pinned"))


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    folder, wanted = tmp_path_factory.mktemp("newer"), os.environ.get("PYBOY_NEXT", "")
    if wanted:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
        subprocess.run([*pip, str(folder), f"pyboy=={wanted}"], check=True, timeout=PATIENCE_S)
    found = play_in(folder)
    assert found["version"] == (wanted or version("pyboy"))
    return found


@pytest.mark.parametrize("seen", ["memory", "pictures"])
def test_equal_keys_give_equal(seen: str, pinned, newer) -> None:
    assert newer["played"][seen] == pinned["played"][seen]


def test_a_state_goes_on_exactly(newer) -> None:
    assert newer["goes_on_elsewhere"] == newer["goes_on"]


def test_it_loads_all_older_states_and_they_go_on_alike(pinned, newer) -> None:
    mine, theirs = dict(pinned["loads"]), dict(newer["loads"])
    assert mine.pop("2.7.0")  # its own
    assert {"1.4.0", "1.4.7", "1.6.14", "2.3.0", "2.4.1"} <= mine.keys()
    assert {name: theirs.get(name) for name in mine} == mine
