"""Commands of ``run_controller``, one module for each with what it alone needs.

``start`` (``preflight``: its checks; ``disk_space``: file systems and space) · ``stop`` ·
``status`` (``health``: word, sentence and exit code; ``status_screen``: the drawing) · ``logs`` and
``attach`` · ``plan`` · ``ensure`` and ``once`` · ``clean``. ``daemon`` is the daemon;
``run_selection`` names the run.

Each has ``NAME(request, …) -> exit code``; a failure is a DaddyError.
"""
