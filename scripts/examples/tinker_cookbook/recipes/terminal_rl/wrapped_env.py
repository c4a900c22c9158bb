"""Gives the adapter for tinker-cookbook under the name that the recipe has."""

from Daddy.terminal.tinker_adapter import HarborSingleTaskRLDatasetBuilder, HarborTerminalTinkerEnv

__all__ = ["HarborSingleTaskRLDatasetBuilder", "HarborTerminalTinkerEnv"]
