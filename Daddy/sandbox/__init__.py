"""Sandboxes: confined places that run commands, their backends and their pool."""
