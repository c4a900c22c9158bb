"""Shared weights as people see them.

lineage         a version's contributions, refusals and adoptions, as lines of text too (pure)
lineage_plot    the same as one picture (the only importer of matplotlib)
weights_report  the state of a run's or a laptop's shared weights as one record (no torch)
"""
