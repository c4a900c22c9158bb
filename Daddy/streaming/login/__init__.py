"""Runs the relay on the login node, between the files and ports of the jobs and one viewer."""
