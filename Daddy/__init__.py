"""Daddy trains one Pokémon Red agent on Slurm jobs and laptops that average their weights.

Three layers. The entry points (``train_slim``, ``run_actors_only``, ``autotune``, ``dashboard``,
``play``) combine the packages ``pokemon``, ``learning``, ``weights``, ``streaming``, ``hardware``
and ``cluster``, which do not import each other. ``core`` imports none of them.
"""
