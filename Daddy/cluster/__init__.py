"""Runs learners as Slurm jobs, or as processes of one machine.

``cluster_config.json`` is the default configuration; ``cluster/sites/`` has one for each cluster.
``orchestrator`` is the controller, which keeps the slots filled. ``launch`` is the entry of each
job, ``release_bundle`` copies the job's code to its node, ``sync_weights.sh`` starts a laptop's
weight synchronisation. The package imports no sibling but ``core`` and reads learners' files only.
"""
