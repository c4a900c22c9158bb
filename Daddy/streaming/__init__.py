"""Streams play from the jobs through the login node to a viewer on a laptop.

Each package imports only those below it:

web       the viewer in a browser
viewer    the viewer in a window, and as lines
learner   the learner's shared memory and the job's direct port
login     the relay on the login node
protocol  the messages, and the files that carry them

Processes and interfaces: ``tunnel_client`` (``FrameSender``, used by a learner), ``streamer`` (the
process beside a learner), ``relay`` (beside the controller, or started by a viewer's ssh),
``tunnel_server`` (the viewer), ``best_selector`` (pure: selects the featured agents).
"""
