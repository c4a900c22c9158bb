"""Scripted helps, off by default: each does one thing in the agent's place, and is written down.

moment       what a decision sees and what it says: `Moment`, `Act`, `Verdict`
supplies     toss_junk, money
teaching     teach_surf, teach_strength
field_moves  flash, use_surf, use_strength
obstacles    flute, boulders
guards       block_indigo_exit, no_wild
table        all of them by name: what each needs, whether its effect is proven
memoir       what one game's assists have done and how often they failed; travels with its state
helper       door to the emulator's memory: applies them between two steps
"""
