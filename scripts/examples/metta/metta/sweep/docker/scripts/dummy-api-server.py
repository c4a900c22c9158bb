"""Give out run names of sweeps on ports 8080 and 8081: `python -m Daddy.search.coordinator`."""

import runpy

runpy.run_module("Daddy.search.coordinator", run_name="__main__")
