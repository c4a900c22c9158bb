"""Scripted helps, off by default: each does one thing in the agent's place, and is written down.

registry  every assist: its decision, the test of its effect
state     moments, acts and a game's history of them, as it travels with a state
apply     the emulator's memory, read and written between two steps
"""
