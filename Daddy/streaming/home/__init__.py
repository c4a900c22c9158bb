"""What a viewer knows: a relay brought here, and what it says.

ways, whom, orders      by which way ssh leads to a relay, whose, and what is asked of it
calls                   that in ssh's words
connect                 the call that keeps on
listening, receiver     the port that relays come to, and each of them
source, scene, history  what there is to see at one moment, and what was seen (pure)
rate                    how many a second, of late (pure)
"""
