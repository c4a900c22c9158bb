"""The program inside a sandbox: runs commands for the host, with the standard library alone.

Each command is a copy of this program, so its modules load few others: not typing, for example.
"""
