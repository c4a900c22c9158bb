"""Train CartPole in many sandboxes: `python run_demo.py` is `python -m Daddy.run_demo`."""

import runpy

runpy.run_module("Daddy.run_demo", run_name="__main__")
