"""Fan-out: one program in many sandboxes, on this machine, on Slurm or on Dask.

fanout_settings   the settings that decide the results, and each sandbox's share of them
program_lines     parser of the lines that a program prints
estimate          bound on live sandboxes, and the time that a run takes, each with its reason
fanout_state      state of all sandboxes, folded from events
rate_summary      the results by learning rate, with intervals
fanout_screen     live table, lines and summary
fanout_files      files of a run
program_python    the Python that runs the program in a sandbox
run_batch         runs some sandboxes on one machine
local_engine      runs batches in this process
slurm_engine      runs batches as a job array
dask_engine       runs batches on a Dask cluster
fanout_run        a whole run: batches, screen, repetition of lost batches
"""
