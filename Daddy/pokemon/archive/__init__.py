"""Save states by milestone: an archive that a run's learners share, and go back to.

archive_keys  the key of a moment: its milestones, and its place
file_names    the names of an archive's files, and the catalogue that a listing of them is
decisions     rules of loading, keeping and removing states
state_format  a state with its provenance as bytes
store         the folder of states
env_history   one environment's way from state to state
env           the environment that keeps and loads states
claims        a milestone for another machine: a parent claim and an input log
claim_store   the claims beside an archive's states
claim_replay  a claim played again in a child process
"""
