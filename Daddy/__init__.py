"""Daddy trains one Pokémon Red agent on Slurm jobs and laptops that average their weights.

Three layers. The entry points (``train_slim``, ``run_actors_only``, ``autotune``, ``dashboard``,
``play``) combine the packages ``pokemon``, ``learning``, ``weights``, ``streaming``, ``hardware``
and ``cluster``, which do not import each other. ``core`` imports none of them.
"""

import signal
import sys

# Ctrl-C while a command loads ends the process without a traceback.
if sys.argv[:1] == ["-m"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # run_entry restores Python's handler
