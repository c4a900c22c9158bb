"""The controller: it keeps the slots of a run filled and loses no GPU-minute at a hand-over.

Enter at ``run_controller``; ``commands`` has one module for each word. ``controller_wiring`` turns
a configuration (``control_parameters``, ``executors``) into a ``controller``. Its loop reads the
queue through a ``scheduler_interface`` (``slurm_scheduler`` or ``local_scheduler``), lets the pure
``reconcile`` write down what was seen, asks the pure ``planner`` (made of ``decisions`` and
``plan_actions``) what to do, and applies it through ``apply_plan``; ``ledger_file`` remembers, and
the pure ``ledger_replay`` tells what its entries mean. ``slot_status`` reads the learners' leases,
``controller_lease`` the controller's, ``status_summary`` is what each pass tells ``status``,
``child_processes`` run beside it. ``slurm_templates`` is the only source of job scripts; the other
``slurm_*`` modules run and read one program each. ``local_job_runner`` runs beside each local job.
By ``control_files`` person, controller and jobs tell each other what is wanted. Without a
controller jobs make its passes: ``sidecar`` watches (``decisions.sidecar_takeover`` decides),
``single_pass`` is one pass. ``controller_records`` has the nouns that all of them share.

Callers may use: ``run_controller.main(argv) -> int``, ``planner.plan``, ``scheduler.Scheduler``,
``slurm_templates.render_job_script``, ``status.read_status``, ``single_pass.make_single_pass``.
"""
