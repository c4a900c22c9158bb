"""SSH without OpenSSH's programs: the one room that paramiko is let into.

``login`` connects by what OpenSSH's config and known hosts say, and says in our words what went
wrong; ``sftp`` copies files. Host keys are strict and nobody is ever asked for a password.
"""
