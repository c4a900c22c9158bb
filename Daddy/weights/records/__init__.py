"""Versions on probation, in commit records. All of it is pure.

sequential  the test that tells whether a version is worse than an older one
probation   which version is looked at, against which, and what follows
"""
