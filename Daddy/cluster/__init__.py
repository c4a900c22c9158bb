"""Runs learners as Slurm jobs, or as processes of one machine.

``cluster_config.json`` is the default configuration; ``cluster/sites/`` has a profile of each.
``orchestrator`` is the controller, which keeps the slots filled. ``launch`` is the entry of each
job, ``release_node_copy`` copies the job's code to its node, ``sync_weights.sh`` starts a laptop's
weight synchronisation. The package imports only ``core``; of learners it reads only files.
"""
