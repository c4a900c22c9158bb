"""A month in a Slurm queue, simulated: our own ``plan`` on it, and other policies.

``scenario`` the assumptions, the rows of the table, and a person's own site · ``incidents`` the
incidents of one month and the waits of its jobs · ``site`` the queue, event by event ·
``our_controller`` the product's ``reconcile``, ``fold`` and ``plan`` on
that site · ``baselines`` the five policies it is compared with · ``simulation`` many months side by
side, as text and JSON.
"""
