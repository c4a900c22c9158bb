"""One module per word that a person can say to ``run_controller``, and what they show.

``start`` (with ``preflight``: everything that can be wrong is said before anything is done; its
parts are ``mounts``, ``forecast``, ``partitions``, ``folders``; ``game`` names what would be
played, ``keepers`` tells what keeps the daemon alive) · ``stop`` · ``status`` (``report`` gathers
one record, after a ``look`` at the queue where nobody else looks; ``figures`` counts, ``verdict``
says it in a sentence, ``screen`` and ``facts`` draw it with ``heirs``) · ``logs`` and
``attach`` (both on ``follow``) · ``plan`` · ``ensure`` (with ``units``) · ``once`` · ``clean``
(with ``leftovers``). ``serve`` is what the daemon itself runs; ``request`` says which run is meant.

Each has ``NAME(request, …) -> exit code``; what goes wrong is a DaddyError.
"""
