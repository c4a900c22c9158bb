"""Modules that at least two packages import. None of them imports another package of ours."""
