"""The controller: it keeps the slots of a run filled and loses no GPU-minute at a hand-over.

Enter at ``run_controller`` (start, status, stop). The loop in ``controller`` reads the queue
through a ``scheduler`` (``slurm_scheduler`` or ``local_scheduler``), lets the pure ``reconcile``
write down what was seen, asks the pure ``plan`` what to do, and applies it through ``effects``;
``ledger`` remembers. ``slurm_templates`` is the only source of job scripts, ``slurm_states``
reads what Slurm prints, ``local_job`` runs beside each local job, ``slots`` reads the learners'
leases, ``daemon`` outlives the shell, ``report`` says how things stand. ``records`` holds the
nouns all of them share.

Callers may use: ``run_controller.main(argv) -> int``, ``plan.plan``, ``slurm_templates.render``,
``scheduler.Scheduler``, ``report.read_status``.
"""
