"""The ground floor: what every other package may use and nothing of what they do.

Settings: ``config``, ``paths``, ``release`` (made by ``freezing``, packed by ``parcel``),
``names``, ``seeds``, ``metrics``, ``vocabulary``, ``intervals`` (how sure a mean is), ``rom``
(which game a file is), ``words`` (times and counts as people read them), ``remembered`` (a
laptop's cluster and keys), ``copies`` (settings of a run's copy).
Doors: ``clock`` (time), ``files`` (disk), ``process`` (children), ``machine`` (psutil), ``ssh/``.
Living together: ``lease`` (who holds what), ``seat`` (filling a slot), ``events`` (what happened),
``boot`` (how long a start took), ``wall`` (when to stop), ``signals`` (an event they set).
Trouble: ``errors`` (one exit code and one "what to do next" each).
"""
