"""Terminal tasks: an agent types into a terminal in a sandbox, and a verifier grades its files.

dockerfile      parser of a Dockerfile: image, packages and steps
task_folder     reads a task folder in Harbor's format
"""
