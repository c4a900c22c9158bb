"""Daddy trains one Pokémon Red agent on Slurm jobs and laptops that average their weights.

Three layers. The entry points (``train_slim``, ``run_actors_only``, ``autotune``, ``dashboard``,
``play``) combine the packages ``pokemon``, ``learning``, ``weights``, ``streaming``, ``hardware``
and ``cluster``, which do not import each other. ``core`` imports none of them.
"""

import signal
import sys
from itertools import pairwise
from typing import Any

_INSTALLED = {"run_controller", "run_actors_only", "tunnel_server", "train_slim", "autotune"}


def _runs_one_of_ours() -> bool:
    """Return True if Python was started for a module of Daddy, or for a command that pip made."""
    if sys.argv[:1] == ["-m"]:  # Python still looks for the module that it shall run
        options = pairwise(sys.orig_argv)
        return any(flag == "-m" and name.startswith("Daddy.") for flag, name in options)
    folder, _, name = (sys.argv or [""])[0].rpartition("/")
    return name in _INSTALLED and folder.endswith("bin")


def _report_exception(*raised: Any) -> None:
    from Daddy.core.environment_files import report_exception

    report_exception(*raised)


if _runs_one_of_ours():
    sys.excepthook = _report_exception  # an import may fail before run_entry is there
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback; run_entry sets Python's again
