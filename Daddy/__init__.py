"""Daddy: four Slurm jobs, some laptops, one Pokémon Red agent.

Three layers. The entry points (``train_slim``, ``run_actors_only``, ``autotune``, ``dashboard``,
``play``) combine the packages ``pokemon``, ``learning``, ``weights``, ``streaming``, ``hardware``
and ``cluster``, which do not import each other. ``core`` imports none of them.
"""
