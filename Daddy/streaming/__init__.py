"""Frames to the viewer: from any job, through the login node, to a window at home.

Packages, each of which knows only those below it:

web       the viewer in a browser
viewer    the viewer in a window, and in lines
learner   the learner's shared memory and the job's port
login     a relay on the login node
protocol  what both ends say to each other

Beside them the processes, and what callers use:

tunnel_client   a learner to its streamer: ``FrameSender``
streamer        entry: the process beside a learner
relay           entry: the process beside the controller, or one started by a viewer's ssh
tunnel_server   entry: the viewer at home
best_selector   which agents are featured, and why (pure)

Callers may use ``best_selector.select``, ``tunnel_client.FrameSender``, ``relay.main`` and
``tunnel_server.main``.
"""
