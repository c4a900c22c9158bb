"""What learners and laptops do for the fleet beside learning and playing.

errand      a job on a thread that never disturbs whoever it runs beside; the archive to do it in
courier     a laptop plays the run's milestones into its own archive, and hands in its own
pushing     a laptop's work goes to the cluster by itself
postmaster  a job shows milestones to laptops, and judges those that laptops hand in
beside      all of a laptop's errands, from the visit's start to its end
duties      all of a job's, likewise

Callers may use: beside.beside, duties.duties, errand.Errand, errand.Say.
"""
