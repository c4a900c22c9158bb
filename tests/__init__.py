"""Tests, mirroring Daddy/. A package, so that no library's own `tests` stands in its way."""
