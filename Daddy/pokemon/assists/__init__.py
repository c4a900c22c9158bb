"""Assists are scripted interventions, off by default: each does one thing for the agent."""
