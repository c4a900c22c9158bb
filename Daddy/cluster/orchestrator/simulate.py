"""Entry: starts ``scripts.simulator``, a month in a Slurm queue under six policies."""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))
    runpy.run_module("scripts.simulator", run_name="__main__", alter_sys=True)
