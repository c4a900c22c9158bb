"""Tests, mirroring Daddy/. A package so that no library's own top-level `tests` stands in its way."""
