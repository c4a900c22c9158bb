"""Against purges: a small copy at home, what is missing, and going on from the copy.

holes         what a purge took out (no torch)
mirroring     one pass of the copy in the home directory (no torch)
writers       who may still write into a run
restore_plan  from what a run goes on after a purge, and as which number (pure)
sources       what a run can be restored from
restoring     a restore, looked at and done
best_states   which states of an archive a small copy takes (pure)
"""
