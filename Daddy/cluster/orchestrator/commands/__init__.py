"""Holds the commands of ``run_controller``, one module each.

``start`` (``preflight``: its checks; ``storage_checks``: space) · ``stop`` · ``status``
(``health_verdict``: word, sentence and exit code; ``status_screen``: the screen) · ``logs`` with
``attach`` · ``plan`` · ``ensure`` with ``once`` · ``clean``. ``daemon`` starts and runs the
controller's process; ``run_selection`` finds the run.

Each defines ``run_NAME(request, …) -> exit code`` and raises a DaddyError on failure.
"""
