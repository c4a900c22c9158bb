"""The controller: it keeps the slots of a run filled and loses no GPU-minute at a hand-over.

Enter at ``run_controller``; ``commands`` has one module for each word. The loop in ``controller``
reads the queue through a ``scheduler`` (``slurm_scheduler`` or ``local_scheduler``), lets the pure
``reconcile`` write down what was seen, asks the pure ``plan`` (made
of ``decisions``) what to do, and applies it through ``effects``; ``ledger`` remembers
(``ledger_snapshot``: what it comes to, for who only looks). A configuration becomes a controller in
``assembly``: ``control_parameters``, ``executors`` (which scheduler), ``specs`` (what is asked for
each job).
``slurm_templates`` is the only source of job scripts, ``slurm_commands`` runs and counts Slurm's
programs; ``slurm_squeue`` (the listing), ``slurm_site`` (the site's limits) and ``slurm_sacct``
(ends of jobs, for the ``inquest``) read their output. ``local_job`` runs beside
each local job, ``slots`` reads the learners' leases (between passes ``glance`` only looks whether
they changed), ``daemon`` outlives the shell, ``notify`` tells the person. ``orders`` is what jobs
read when they start. Without a controller jobs make its passes: ``sidecar`` watches
(``decisions.takeover`` decides, ``failover`` says whether they may), ``single_pass`` is one pass.
``records`` holds the nouns all of them share.

Callers may use: ``run_controller.main(argv) -> int``, ``plan.plan``, ``slurm_templates.render``,
``scheduler.Scheduler``, ``commands.report.read_status``, ``single_pass.one_pass``.
"""
