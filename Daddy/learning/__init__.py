"""PPO over any workload's environments; torch is allowed here.

Reading order: `loop` is THE loop, one scroll. Around it:

ports       what the loop needs from outside, as Protocols (pure)
parts       what a learner is put together from
assemble    from a configuration to parts
session     what the loop's steps share, and its way to a checkpoint and back
record      what the loop writes down: states, metrics, episodes, the beat
gauges      where time goes, where agents walk, which milestones they reached
show        what happens after every step: frames offered, walks watched

policy      actor and critic with an optional LSTM; all parameters exist from birth
encoders    observations become features, told apart by their space
rollout     storage of one horizon
collector   how it is played, a group of environments at a time
storage     one observation key over a horizon, screens at 2 bits a pixel
gae         advantages (pure)
ppo         one update: rollout in, losses out
adam        the optimizer, over one flat vector
normalise   running deviation of returns that rewards are divided by (pure)
schedule    learning rate over steps, cuts of a rollout (pure)
settings    numbers of one learner, from configuration and device (pure)
device      auto | cpu | cuda | mps, threads, precision
prepare     quiet logs and threads before torch and gymnasium load
randomness  the process-wide generators, seeded and kept together
checkpoint  everything private of one peer on disk, whole or not at all

vector      N environments behind one call (pufferlib_door: the only way to pufferlib)
trial       which backend is fastest here (no torch)
cartpole    the second workload's environment
player      playing without learning, many environments at once
agent       one policy in one environment, for showing and judging
attempt     one try to fill a slot (no torch)
ahead       what is loaded side by side while torch is (no torch)
flags       the learner's command line (no torch)
solo        the exchange and the frame sink of a learner on its own
board       TensorBoard
commentary  what a person reads while the loop runs

Callers may use: loop.train, player, assemble, policy.make_policy, the ports, checkpoint.save and
checkpoint.load_newest, vector.make_vector.
"""
