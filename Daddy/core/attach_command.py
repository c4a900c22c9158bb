"""Pure. Builds the shell command by which a viewer's ssh starts a run's relay on its pipes."""

import shlex
from collections.abc import Sequence

ATTACH = "attach"
"""Name in a run's stream folder: the script by which a viewer's ssh starts a relay."""
HOME_ATTACH = f".config/daddy/{ATTACH}"
"""Path in the home folder of that script, for the run whose relay started last."""
OWN_FILES = (
    'for f; do case "$(ls -ld -- "$f" 2>/dev/null)" in -????-??-*) ;; *) continue ;; esac; '
    'if [ -O "$f" ]; then '
)
"""A script is run only if it is owned by us, no link, and writable by no one else: in a folder that
others may write, their link could lead to any script of ours."""
TELL_HOSTS = 'sed -n "s/^# relay: /daddy-relay /p" "$f" >&2; echo "daddy-here $(uname -n)" >&2; '
_RUN = (
    "how=$1; shift; " + OWN_FILES + TELL_HOSTS + 'exec sh "$f" $how; fi; done; '
    'echo "no relay of yours has left $* there" >&2; exit 66'
)
"""One line without an exclamation mark, because csh accepts nothing else."""
NO_SCRIPT = 66
"""Exit status of that line if there is no such script."""


def attach_scripts(shared_weights: str) -> tuple[str, ...]:
    """Return the paths of attach scripts, from the home folder: of the run with this folder of
    weights, then of the run whose relay started last.
    """
    run = shared_weights.removesuffix("/shared_weights")
    if run in ("", shared_weights):
        return (HOME_ATTACH,)
    return (f"{run.removeprefix('~/').rstrip('/')}/stream/{ATTACH}", HOME_ATTACH)


def attach_command(scripts: Sequence[str], option: str = "") -> str:
    """Return the shell command that runs the first of these scripts, with ``option``."""
    return shlex.join(["sh", "-c", _RUN, "daddy", option, *scripts])
