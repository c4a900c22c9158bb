"""Assists are scripted interventions, off by default: each does one thing for the agent.

assist_registry  every assist: its decision, and the test of its effect
assist_state     interventions and their history in a game, saved with the game's state
apply_assists    reading and writing the emulator's memory between two steps
"""
