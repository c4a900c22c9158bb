"""A laptop's side: versions that were pulled, what it contributes, what became of it.

pulled        a laptop's WeightExchange that only takes
contributing  a laptop's that also contributes, through an outbox
owed          what quantising dropped, for a laptop's next process
effect        what a laptop's owner did for the run, added up (no torch)
receipts      what became of a laptop's contributions
local         the newest complete, verified version in a pulled folder (no torch)
"""
