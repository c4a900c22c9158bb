"""This package holds the game as a Gymnasium environment, and nothing about learning."""
