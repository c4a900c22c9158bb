"""Modules that at least two packages use; none of them imports a package."""
