"""Frames to the viewer: from any job, through the login node, to a window at home.

codec, tiling, protocol, messages, status            the wire, pure (``docs/stream-protocol.md``)
auth, session                                        who may say it: tokens, proofs, seals
best_selector, episodes                              who is featured, and why
tunnel_client, ring, streamer                        learner to its streamer: ``FrameSender``
inputs, outbox                                       what is played, for who plays it again
segment, spool, address, port, listener, direct      streamer to login node: by file, or straight
fleet, programme, flow, playout, pace, link, relay   login node to laptop: the relay
seats, script, pipes, bridge                       a relay that a viewer's own ssh has started
ways, orders, calls, whom, connect                 the laptop's ssh: which way, in which words
spare_ssh                                          the same by paramiko, where there is no ssh
receiver, listening, source, scene, tunnel_server  the laptop: what there is to see
replays, stage                                     the emulator beside it, a process of its own
lines, headless, recorder                          the same for people, scripts, an event file
history                                            where agents have been, how the run went
font, layout, drawing, panels, sheets, band, window  the same as a pure list of what to paint
keys, watcher, viewer                              what keys mean; the window that paints the list
reel, films, film                                  the last minutes of it; pictures as a GIF or MP4
web/                                               the same as a page for a browser
tokens, featured                                   the token files; last pictures for reports

Callers may use ``best_selector.select``, ``tunnel_client.FrameSender``, ``relay.main``,
``featured.read_featured`` and ``tunnel_server.main``.
"""
