"""Train a model on tasks in a terminal: the same as `python -m Daddy.train_terminal`."""

import runpy

runpy.run_module("Daddy.train_terminal", run_name="__main__")
