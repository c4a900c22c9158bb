"""Receives pictures from relays and shows the agents in a window or in lines."""
