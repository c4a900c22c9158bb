"""Keeps save states by milestone in an archive, which all learners of a run share and load from."""
