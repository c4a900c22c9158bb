"""Tasks of learners and laptops beside learning and playing.

background_task  a task on a thread that never disturbs the learner; the archive that tasks work on
milestone_sync   a laptop plays the run's milestones into its own archive, and hands in its own
laptop_tasks     all of a laptop's tasks, from the visit's start to its end; pushes contributions
job_tasks        all of a job's: shows milestones to laptops, judges those that laptops hand in

Callers may use: laptop_tasks.run_laptop_tasks, job_tasks.job_tasks, background_task.BackgroundTask,
has_archive, open_archive and Say.
"""
