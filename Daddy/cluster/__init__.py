"""Everything about running on somebody's cluster.

``cluster_config.json`` is the shipped configuration, ``sites/`` what differs from place to place,
``sync_weights.sh`` the laptop's way to the shared weights, ``orchestrator`` the controller that
keeps the slots filled, ``launch`` what a job does first (``release_bundle``: its release on the
node). Nothing here imports a sibling package; learners are met on disk.
"""
