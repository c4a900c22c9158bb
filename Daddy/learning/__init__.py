"""PPO over any workload's environments; torch is allowed here.

ports       what the loop needs from outside, as Protocols (pure)
policy      the networks: pictures or plain vectors, with an LSTM; all parameters exist from birth
gae         advantages (pure)
ppo         one update: rollout in, losses out
rollout     storage of one horizon and its collection
normalise   running deviation of returns that rewards are divided by
schedule    learning rate and entropy over steps (pure)
device      auto | cpu | cuda | mps, threads, precision
checkpoint  everything private of one peer on disk, whole or not at all
solo        the exchange and the frame sink of a learner on its own
loop        THE loop, one scroll
vector      N environments behind one call (the only door to pufferlib)

Callers may use: loop.train, policy.PixelPolicy and policy.VectorPolicy, the ports, checkpoint.save
and checkpoint.load_newest, vector.make_vector.
"""
