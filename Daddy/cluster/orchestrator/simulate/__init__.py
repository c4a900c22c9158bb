"""A month in a Slurm queue, simulated: our own ``planner`` on it, and other policies.

``scenario`` the assumptions, the rows of the table, and a person's own site · ``incidents`` the
incidents of one month and the waits of its jobs · ``simulated_site`` the queue, event by event ·
``simulated_controller`` the product's ``reconcile``, ``fold`` and ``planner`` on that site ·
``baseline_policies`` the five policies it is compared with · ``simulation`` many months side by
side, as text and JSON.
"""
