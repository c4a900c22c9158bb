"""The ground floor: what every other package may use and nothing of what they do.

Settings: ``config``, ``paths``, ``release``, ``names``, ``seeds``, ``metrics``, ``vocabulary``.
Doors: ``clock`` (time), ``files`` (disk), ``process`` (children), ``machine`` (psutil), ``ssh``.
Living together: ``lease`` (who holds what), ``events`` (what happened), ``wall`` (when to stop).
Trouble: ``errors`` (one exit code and one "what to do next" each).
"""
