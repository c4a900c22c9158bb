"""Fixtures: the demo as a person types it, with plain child processes as sandboxes."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from Daddy import run_demo
from Daddy.core.entry_point import run_entry
from Daddy.core.stop_conditions import SIGNALS
from Daddy.sandbox import backend_facts
from tests.fanout.stand_in import ChildBackend, choose_child, no_facts

TASK = """
import json, os, random, sys
draw = random.Random(os.environ["TASK_SEED"])
for episode in range(1, int(sys.argv[2]) + 1):
    print(json.dumps({"sandbox_id": "sb-99999", "episode": episode, "reward": draw.random()}))
"""


class Demo:
    """Runs the demo's command line in a folder of its own."""

    def __init__(self, folder: Path, use: Callable[[ChildBackend], None]) -> None:
        self.folder, self.use = folder, use
        self.backend = ChildBackend()
        self.run_dir = folder / "run"
        self.task = folder / "task.py"
        self.task.write_text(TASK)

    def run(self, *flags: str, backend: ChildBackend | None = None) -> int:
        self.backend = backend or ChildBackend()
        self.use(self.backend)
        return run_entry(run_demo.main, ["--run-dir", str(self.run_dir), *flags])

    def begin(self, *flags: str, backend: ChildBackend | None = None) -> int:
        """Run the small task."""
        return self.run("--task", str(self.task), "--episodes", "3", *flags, backend=backend)

    def results(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (self.run_dir / "results").iterdir()}

    def events(self) -> list[dict[str, Any]]:
        lines = [
            line
            for path in sorted((self.run_dir / "events").iterdir())
            for line in path.read_text().splitlines()
        ]
        return [json.loads(line) for line in lines]


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Demo]:
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(backend_facts, "read_backend_facts", no_facts)
    monkeypatch.setattr(backend_facts, "choose_backend", choose_child)

    def use(backend: ChildBackend) -> None:
        monkeypatch.setattr(backend_facts, "open_backend", backend.open)

    yield Demo(tmp_path, use)
    for number, handler in handlers.items():
        signal.signal(number, handler)
