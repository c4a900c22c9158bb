"""Finds the number of environments that a machine can run without slowing its person down.

recommend_envs   facts of a machine and measurements → number of environments, with reasons (pure)
env_count_sweep  steps per second and memory by number of environments, through passed-in functions
machine_profile  the measured result, stored as JSON per user id

Callers may use: recommend_envs.MachineFacts, recommend, recommend_measured and counts_to_try;
env_count_sweep.sweep_counts; machine_profile.Profile, load_profile, save_profile, default_folder.
"""
