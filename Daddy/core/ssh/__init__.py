"""SSH without OpenSSH's programs: the one room that paramiko is let into.

``login`` connects and says in our words what went wrong (``troubles``: as types), by what
OpenSSH's ``config`` and ``known`` hosts say; ``sftp`` copies files, ``lines`` runs commands and
leads ports here. Host keys are strict and nobody is ever asked for a password.
"""
