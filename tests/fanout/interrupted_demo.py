"""Runs the demo with plain child processes in a process of its own, for tests to interrupt."""

import sys

from Daddy import run_demo
from Daddy.core.entry_point import run_entry
from Daddy.sandbox import backend_facts
from tests.fanout.stand_in import ChildBackend, choose_child, no_facts


def main(argv: list[str]) -> None:
    backend = ChildBackend()
    backend_facts.read_backend_facts, backend_facts.choose_backend = no_facts, choose_child
    backend_facts.open_backend = backend.open
    sys.exit(run_entry(run_demo.main, argv))
