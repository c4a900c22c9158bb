"""What a machine can give without its owner noticing.

recommend  facts of a machine, and what was measured → number of environments with reasons (pure)
benchmark  a sweep of environment counts through injected functions: steps per second, memory
profile    what was measured, kept as JSON per user id

Callers may use: recommend.Facts, recommend.recommend, recommend.recommend_measured,
recommend.counts_to_try, benchmark.sweep, profile.Profile, profile.load_profile,
profile.save_profile, profile.default_folder.
"""
