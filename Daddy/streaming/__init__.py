"""Frames to the viewer: from any job, through the login node, to a window at home.

codec, protocol, messages, status, auth, session   the wire, pure (``docs/stream-protocol.md``)
best_selector                                      who is featured, and why
segment, spool, tunnel_client                      learner to login node: ``FrameSender``
fleet, programme, flow, link, relay                login node to laptop: the relay
seats, script, pipes, bridge                       a relay that a viewer's own ssh has started
ways, calls, whom, connect                         the laptop's ssh: which way, in which words
scene, receiver, tunnel_server                     the laptop: what there is to see, in lines
font, layout, drawing, panels, window, viewer      the same in a window, painted from a pure list
film                                               pictures as a GIF or an MP4
tokens, featured                                   the token files; last pictures for reports

Callers may use ``best_selector.select``, ``tunnel_client.FrameSender``, ``relay.main``,
``featured.read_featured`` and ``tunnel_server.main``.
"""
