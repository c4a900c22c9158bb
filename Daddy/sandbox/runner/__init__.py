"""The program inside a sandbox: runs commands for the host, with the standard library alone."""
