"""Soaks: the product left alone with a real cluster while faults are injected, then judged."""
