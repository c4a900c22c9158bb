"""Grades code that a model writes.

tasks      the file of tasks, checked, and the inputs of each step
extract    a completion → source code
bans       source code → the banned pattern in it
harness    inside the sandbox: calls the function, writes its values
judge      values → grade
grader     one command per completion in a pool of sandboxes
"""
