"""Streams play from the jobs through the login node to a viewer on a laptop."""
