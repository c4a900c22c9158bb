"""Simulates a month in a Slurm queue under our own ``planner`` and under other policies.

``scenario``: assumptions, rows of the table, and a person's own site · ``incidents``: incidents of
a month and waits of its jobs · ``simulated_site``: the queue, event by event ·
``simulated_controller``: the product's ``reconcile``, ``fold`` and ``plan`` on that site ·
``baseline_policies``: the five policies compared with it · ``run_simulations``: months in parallel,
as text and JSON.
"""
