"""Pure: the questions that ``plan`` puts together, one module each.

``view`` the moment as all of them see it · ``capacity`` how many jobs may be there, and how
successors wait · ``queueing`` what is submitted, held back and taken out again · ``rollout`` which
release runs in which slot · ``failures`` what counts as one · ``breaker`` what stays empty after
them · ``stops`` why nothing more may be submitted · ``nodes`` which nodes are left out · ``hangs``
who gives no sign of life · ``yielding`` the person's own job comes first · ``maintenance`` what
still fits before it · ``pauses`` when somebody above us said stop · ``dismissal`` how a run is
emptied · ``failover`` who makes the passes while no controller lives · ``notices`` what the person
is told · ``waking`` when to look again.
"""
