"""Gives the environment of terminal tasks under the name that the recipe has."""

from Daddy.terminal.terminal_gym import AsyncTerminalGymEnv, StepResult, TerminalAction

__all__ = ["AsyncTerminalGymEnv", "StepResult", "TerminalAction"]
