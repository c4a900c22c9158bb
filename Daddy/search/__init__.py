"""Search: sweeps over hyperparameters.

A sweep: the driver (`sweep_loop`, read it first) asks `study` for settings and hands attempts to
`local_executor` or `slurm_executor`; `trial_log` reads their events, `trial_rules` judges them.
Apart from that, `docker_launch` starts a `node_supervisor`, and `nodes` runs commands in its nodes.

sweep_files        the folder of a sweep: its record, and run numbers that are given out once
sweep_request      the words and options of the command line
search_space       the settings that a sweep varies, and the values of each
study_plan         the decisions of a sweep that stay, and its trials
study              Optuna: suggests settings, and keeps the trials in a journal
sweep_loop         the driver: asks for settings, runs trials, judges them
trial_rules        the verdict on a trial's attempt, and when a sweep stops by itself
trial_log          the events that a trial's learners write
local_executor     attempts of trials on one rank, or on several that follow through files
slurm_executor     attempts of trials as Slurm jobs
slurm_rules        the reason against a job now, and the exit codes of ended jobs
wandb_runs         each trial as a run of W&B
sweep_report_text  the report of a sweep for a screen
sweep_report_plot  the report as a picture (matplotlib)
coordinator        HTTP server that registers sweeps and gives out run names
node_plan          two nodes and the coordinator in one private network, as command lines
node_supervisor    process that keeps them
nodes              their state, commands in them, their logs and their end
"""
