"""Defines the messages and files between job, relay and viewer (``docs/stream-protocol.md``)."""
