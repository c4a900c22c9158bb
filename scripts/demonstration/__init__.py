"""Runs the demo: ``stage`` starts every part, ``summary`` reads results, ``picture`` draws them.

Every part is started by the command that a person would type; every number is read from the run
directory.
"""
