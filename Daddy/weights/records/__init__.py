"""What stands on disk, as plain values: read strictly, written canonically. All of it is pure.

manifest    the records on disk: contributions, versions, heads
notices     the records that laptops read
strict      JSON read strictly into dataclasses
sequential  the test that tells whether a version is worse than an older one
probation   which version is looked at, against which, and what follows
card        the model card of a file of weights
"""
