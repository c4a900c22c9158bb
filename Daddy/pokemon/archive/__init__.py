"""Moments worth going back to, kept as save states by milestone and shared by a run's learners.

keys       under what a moment is filed: the milestones it holds
names      what a file's name says, and the catalogue that a listing of them is
rules      the numbers of all decisions
decisions  what to load now, what to keep, what to give up, and why
record     a state with its provenance as bytes
store      door to the files
journey    one environment's way from state to state
env        the environment that keeps and loads states
claims     a milestone as (parent claim, input log): how it travels between machines
book       the claims beside an archive's states
post       which claims travel, either way
replay     the killable child that plays a claim again, and what it says
"""
