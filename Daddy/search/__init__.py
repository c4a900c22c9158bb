"""Search: sweeps over hyperparameters.

sweep_files   the folder of a sweep: its record, and run numbers that are given out once
search_space  the settings that a sweep varies, and the values of each
study_plan    the decisions of a sweep that stay, and its trials
study         Optuna: suggests settings, and keeps the trials in a journal
coordinator   HTTP server that registers sweeps and gives out run names
node_plan     two nodes and the coordinator in one private network, as command lines
node_supervisor   process that keeps them
nodes         their state, commands in them, their logs and their end
"""
