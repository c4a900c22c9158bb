"""Everything under ``shared_weights/``: jobs share one policy, and laptops take part.

Packages, each importing only those below it:

laptop                     a laptop's side of the exchange, and its connection to the cluster
merge                      making a version: contributions are read, judged, weighted and added up
store                      the folder's files: records, blobs, versions, heads, heartbeats
encoding                   states and deltas: as bytes, and their arithmetic

Beside them the exchange of a job, and the commands:

exchange_settings          the numbers that a config may set (pure)
laptop_attachments         small files that laptops send or the run publishes (no torch)
unmerged_progress          book-keeping of one peer: its base, its offers and their outcomes
evaluations                evidence on how versions play: evaluations, learners' episodes (no torch)
play_regression            the newest version against the best one, beyond chance (pure)
weight_exchange            a job's WeightExchange
friend_job_exchange        the WeightExchange of a friend's job in the owner's run
friends                    entry: friends with accounts of their own: add, remove, trust, list
commit_history             commit records and their flaws, for reports (no torch)
locate_shared_weights      finds the shared weights that a command names
backup                     mirrors, and the files in them (no torch)
lineage                    a version's contributions, refusals and adoptions, as text too (pure)
lineage_plot               the lineage as one picture (matplotlib)
weights_status_record      the state of shared weights, of a run or a laptop, as a record (no torch)
mirror                     entry: keep a mirror of a run in the home directory
restore                    entry: put back files that a purge deleted
log                        entry: the lineage, line by line or as a picture
status                     entry: the state of shared weights
rollback                   entry: go back to an older version
import_export              a version as a file, and such a file as version 0 of a run
model                      entry: export, import, show
sync                       entry of ``sync_weights.sh``: pull, push, status, setup, login
"""
