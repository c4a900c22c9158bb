"""Messages between a relay and a viewer, and a job's spool file (``docs/stream-protocol.md``)."""
