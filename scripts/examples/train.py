"""Train a model to write functions: `python train.py` is `python -m Daddy.train_codegen`."""

import runpy

runpy.run_module("Daddy.train_codegen", run_name="__main__")
