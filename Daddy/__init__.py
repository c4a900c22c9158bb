"""Daddy: four Slurm jobs, some laptops, one Pokémon Red agent.

Three floors. Entries (``train_slim``, ``run_actors_only``, ``autotune``, ``dashboard``, ``play``)
wire; ``pokemon``, ``learning``, ``weights``, ``streaming``, ``hardware`` and ``cluster`` do, side
by side, without importing each other; ``core`` knows only the standard library and pydantic.
"""
