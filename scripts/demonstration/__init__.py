"""The demo: ``stage`` starts every part, ``summary`` reads what they left, ``picture`` draws it.

Everything is started by the commands a person would type; every number is read back from the run
directory.
"""
