"""Search: sweeps over hyperparameters.

sweep_files   the folder of a sweep: its record, and run numbers that are given out once
coordinator   HTTP server that registers sweeps and gives out run names
"""
