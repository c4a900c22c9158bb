"""States and deltas as bytes, on disk and on the network.

tensor_layout     the list of tensors in safetensors bytes, its schema hash (pure; no torch)
delta_frames      a whole state, or its delta to a version both sides hold (pure; no torch)
quantise          deltas as int8 with scales (pure; torch)
state_arithmetic  sums, differences and norms of states (pure; torch)
state_codec       state dict to safetensors bytes and back (torch)
"""
