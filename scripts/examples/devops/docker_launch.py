#!/usr/bin/env python3
"""Run two nodes on this machine: `docker_launch.py` is `python -m Daddy.docker_launch`."""

import runpy

runpy.run_module("Daddy.docker_launch", run_name="__main__")
