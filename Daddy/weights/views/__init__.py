"""What people get to see: the lineage as lines and as a picture, how it stands on one screen.

adoptions      who took over which version, from the learners' events
lineage        a version's contributions, refusals and adoptions (pure)
lines          the lineage as lines of text (pure)
panels         what each panel of its picture shows
picture        the lineage as one picture (the only importer of matplotlib)
usage          what a folder takes on the disk
run_report     how a run's shared weights stand, as one record (no torch)
pulled_report  the same of a laptop's folder
screen         that record as one screen (pure)
"""
