"""Benches: each ``NAME.py`` here measures one thing against a peer or a limit in the same run."""
