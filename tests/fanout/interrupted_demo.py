"""Runs the demo with plain child processes in a process of its own, for tests to interrupt."""

import sys

from Daddy import run_demo
from Daddy.core.entry_point import run_entry
from Daddy.fanout import run_batch
from Daddy.sandbox.choose_backend import BackendChoice
from tests.fanout.stand_in import ChildBackend


def main(argv: list[str]) -> None:
    backend = ChildBackend()
    run_demo.choose = lambda *_, **__: BackendChoice("process", "none", "a test asks for it")
    run_demo.find_backend = run_batch.find_backend = lambda *_, **__: backend
    sys.exit(run_entry(run_demo.main, argv))
