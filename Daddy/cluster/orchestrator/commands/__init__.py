"""Commands of ``run_controller``, one module for each with what it alone needs.

``start`` (``preflight``: its checks; ``storage``: file systems and space) · ``stop`` · ``status``
(``health``: word, sentence and exit code; ``screen``: the drawing) · ``logs`` and ``attach`` ·
``plan`` · ``ensure`` and ``once`` · ``clean``. ``serve`` is the daemon; ``request`` names the run.

Each has ``NAME(request, …) -> exit code``; a failure is a DaddyError.
"""
