"""Daddy trains one Pokémon Red agent on Slurm jobs and laptops that average their weights.

Three layers. The entry points (``train_slim``, ``run_actors_only``, ``autotune``, ``dashboard``,
``play``) combine the packages ``pokemon``, ``learning``, ``weights``, ``streaming``, ``hardware``
and ``cluster``, which do not import each other. ``core`` imports none of them.
"""

import signal
import sys
from itertools import pairwise

if (
    sys.argv[:1] == ["-m"]  # Python still looks for the module that it shall run: is it ours?
    and any(flag == "-m" and name.startswith("Daddy.") for flag, name in pairwise(sys.orig_argv))
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback; run_entry sets Python's again
