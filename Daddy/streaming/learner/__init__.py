"""Connects a learner to its streamer by shared memory, and a job to relays by its own port."""
