"""States and deltas as bytes: what is written, and what travels.

layout    the list of tensors in safetensors bytes, its schema hash (pure; no torch)
planes    16-bit numbers rearranged for compression (pure; no torch)
frames    frames: a state whole, or the step from a version both sides hold (pure; no torch)
quantise  deltas as int8 with scales (pure; torch)
route     which frames a laptop fetches (pure)
codec     state dict to safetensors bytes and back (torch)
"""
