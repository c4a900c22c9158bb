"""Finds the number of environments that a machine can run without slowing its person down."""
