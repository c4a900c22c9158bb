"""Keeps save states by milestone in an archive, which all learners of a run share and load from.

state_keys             the key of a state: its milestones and its place
file_names             names of an archive's files; a listing of them is parsed into its catalogue
archive_decisions      rules for loading, keeping and removing states
state_format           a state with its provenance as bytes
archive_store          the folder of states
env_archive_progress   counters of one environment between states
archive_env            the environment that keeps and loads states
claim_format           a claim: a milestone as a parent claim and inputs, for another machine
state_claims           the claims beside an archive's states
claim_replay           the replay of a claim in a child process
"""
