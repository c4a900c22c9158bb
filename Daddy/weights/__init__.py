"""Everything under ``shared_weights/``: jobs share one policy, and laptops take part.

Packages, each importing only those below it:

laptop       a laptop's side of the exchange, and its connection to the cluster
merge        making a version: contributions are read, judged, weighted and added up
store        the folder's files: records, blobs, versions, heads, heartbeats, frames for laptops
encoding     states and deltas: as bytes, and their arithmetic

Beside them the exchange of a job, and the commands:

exchange_settings   the numbers that a config may set (pure)
attachments         small files that laptops send or the run publishes (no torch)
peer_progress       book-keeping of one peer: its base, its offers and what became of them
evaluations         evidence on how versions play: evaluations, learners' episodes (no torch)
version_comparison  the newest version against the best one, beyond chance (pure)
resume_progress     weights to continue with after a restart
weight_exchange     a job's WeightExchange
friend_exchange     a WeightExchange of a friend's job: reads the owner's folder, writes its own
friends             entry: friends with accounts of their own: add, remove, trust, list
commit_history      commit records and their flaws, for reports (no torch)
locate_weights      finds the shared weights that a command names
backup              a copy that no purge deletes (no torch)
lineage             a version's contributions, refusals and adoptions, as text too (pure)
lineage_plot        the same as one picture (the only importer of matplotlib)
weights_report      the state of a run's or a laptop's shared weights as one record (no torch)
mirror              entry: keep a small copy in the home directory
restore             entry: put back files that a purge deleted
log                 entry: the lineage, line by line or as a picture
status              entry: the state of shared weights
rollback            entry: go back to an older version
import_export       a version as a file, and such a file as version 0 of a run
model               entry: export, import, show
sync                entry of ``sync_weights.sh``: pull, push, bidirectional, status, setup, login
"""
