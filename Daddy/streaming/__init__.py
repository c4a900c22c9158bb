"""Frames to the viewer: from any job, through the login node, to a window at home.

Rooms, each of which knows only those below it:

web     the viewer in a browser
show    the viewer in a window, and in lines
home    a relay brought to the laptop, and what it says
job     what a learner's streamer is made of
login   what a relay on the login node is made of
wire    what both ends say to each other

Beside them the processes, and what callers use:

tunnel_client   a learner to its streamer: ``FrameSender``
streamer        entry: the process beside a learner
relay           entry: the process beside the controller
bridge          entry: a relay for one viewer, started by that viewer's ssh
tunnel_server   entry: the viewer at home
best_selector   who is featured, and why (pure)

Callers may use ``best_selector.select``, ``tunnel_client.FrameSender``, ``relay.main``,
``login.featured.read_featured`` and ``tunnel_server.main``.
"""
