"""The controller: it keeps the slots of a run filled and loses no GPU-minute at a hand-over.

Enter at ``run_controller``; ``commands`` has one module for each word. ``wiring`` turns a
configuration (``control_parameters``, ``executors``) into a ``controller``. Its loop reads the
queue through a ``scheduler`` (``slurm_scheduler`` or ``local_scheduler``), lets the pure
``reconcile`` write down what was seen, asks the pure ``plan`` (made of ``decisions`` and
``actions``) what to do, and applies it through ``effects``; ``ledger`` remembers, and the pure
``history`` tells what its entries mean. ``slots`` reads the learners' leases, ``tenure`` the
controller's, ``summary`` is what each pass tells ``status``, ``companions`` run beside it.
``slurm_templates`` is the only source of job scripts; the other ``slurm_*`` modules run and read
one program each. ``local_job`` runs beside each local job. By ``control_files`` person, controller
and jobs tell each other what is wanted. Without a controller jobs make its passes: ``sidecar``
watches (``decisions.takeover`` decides), ``single_pass`` is one pass. ``records`` has the nouns
that all of them share.

Callers may use: ``run_controller.main(argv) -> int``, ``plan.plan``, ``slurm_templates.render``,
``scheduler.Scheduler``, ``commands.status.read_status``, ``single_pass.one_pass``.
"""
