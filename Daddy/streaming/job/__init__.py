"""What a learner's streamer is made of: the memory between the two, and the straight way out.

ring            records in shared memory: the learner never waits
port, listener  the port on which a relay may come straight here, while somebody watches
"""
