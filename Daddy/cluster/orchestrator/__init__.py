"""The controller: a daemon that keeps a job training in each slot of a run.

``run_controller`` is the entry; ``commands`` has one module for each of its commands.
``controller_wiring`` builds a ``controller`` from a configuration (``control_parameters``,
``scheduler_factory``). Its loop reads the queue through a ``scheduler_interface``
(``slurm_scheduler`` or ``local_scheduler``); ``reconcile`` turns the listing into ledger entries;
``planner`` (``decisions``, ``action_types``) decides; ``apply_plan`` acts. ``ledger_file`` stores
the entries, ``ledger_replay`` computes the state that follows from them. ``read_slots`` reads the
slots' leases, ``controller_lease`` the controller's, ``status_summary`` makes the record for
``status``, ``child_processes`` runs relay and mirror. ``slurm_templates`` renders job scripts; the
other ``slurm_*`` modules run or parse one Slurm program each. ``local_job`` supervises a
local job. Person, controller and jobs exchange requests through ``control_files``. Without a
controller, jobs make its passes: a ``sidecar`` watches the lease (``decisions.controller_failover``
decides) and runs ``single_pass``. ``controller_types`` defines the record types that all share.

Callers may use: ``run_controller.main``, ``planner.plan``, ``single_pass.make_single_pass``,
``slurm_templates.render_job_script``, ``commands.status.read_status``, ``scheduler_interface``.
"""
