"""What both ends say to each other: bytes and their meaning (``docs/stream-protocol.md``).

codec, tiling           a picture as a few bytes, by itself or by what earlier ones show (pure)
protocol                kinds of messages, their frame and their bounds (pure)
messages, status        each body, packed and read (pure)
auth, session, tokens   who may say it: proofs, seals, the token files
flow                    what a frame is made against, and how many may be on their way (pure)
segment                 a job's file of reports and pictures as bytes (pure)
episodes                how long episodes last, as seen (pure)
"""
