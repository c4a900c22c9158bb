"""Finds or makes the start state that episodes begin from, and checks it."""
