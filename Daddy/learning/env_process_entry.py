"""Entry of a spawned env process, named by `vector_processes`: prepares the imports, then loads.

The process imports this module before anything else; the fork server preloads it.
"""

from Daddy.learning.startup_preloading import prepare_imports

prepare_imports()

from Daddy.learning.vector_worker import run_worker  # noqa: E402 - after the preparation

__all__ = ["run_worker"]
