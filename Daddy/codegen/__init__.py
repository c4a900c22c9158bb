"""Grades code that a model writes, and keeps the records of its training.

tasks            the file of tasks, checked, and the inputs of each step
extract          a completion → source code
bans             source code → the banned pattern in it
harness          inside the sandbox: calls the function, writes its values
grade_outcome    values → grade
grader           one command per completion in a pool of sandboxes
codegen_run      the files of a training, and the reward that records each completion
training_report  its steps and evaluations in lines for a person
tiny_corpus      right and wrong solutions that warm up the tiny model
"""
