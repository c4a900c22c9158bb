"""Simulates a month in a Slurm queue under our own ``planner`` and under other policies."""
