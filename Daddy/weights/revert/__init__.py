"""A bad version is taken back: what was played, what follows from it, and what is made then.

evaluations  versions played against older ones: by jobs, and by laptops in the inbox
evidence     what was played says of the version on probation (no torch)
reverting    the version that takes back a bad one
examining    a job plays the version on probation, a pair at a time
"""
