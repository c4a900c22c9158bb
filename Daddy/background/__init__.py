"""Background tasks of jobs and laptops, on threads beside learning and playing.

background_task   a repeated task on a thread; the archive on which tasks work
milestone_sync    a laptop replays the run's milestones into its archive and submits its own
laptop_tasks      all tasks of a laptop during its session; pushes contributions
milestone_intake  all tasks of a job: publishes milestones for laptops and checks submitted ones

Callers may use: laptop_tasks.run_laptop_tasks, milestone_intake.run_job_tasks, and background_task.
"""
