"""A month in a Slurm queue, simulated: what our own ``plan`` makes of it, and what others do.

``scenario`` what is assumed · ``weather`` what befalls a month · ``waits`` how long jobs wait ·
``jobs`` and ``site`` the queue, event by event · ``seats`` and ``eyes`` what our controller reads ·
``ours`` the product's ``reconcile``, ``fold`` and ``plan`` on that site · ``rivals`` the five ways
it is compared with · ``month`` one policy, one seed · ``rows`` what the table shows · ``runner``
many months side by side · ``table`` figures as text and JSON · ``picture`` the slots' month (door
to matplotlib) · ``sacct`` a person's own site.
"""
