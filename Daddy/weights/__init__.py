"""Everything under ``shared_weights/``: how jobs share one policy and how it reaches laptops.

Rooms, each importing only those below it:

laptop       a laptop's side of the exchange, and its way to the cluster
merge        making a version: contributions are read, judged, weighted and added up
store        the folder protocol: records, blobs, versions, heads, heartbeats, frames for laptops
encoding     states and deltas: as bytes, and their arithmetic

Beside them the protocol of the folder, and the commands:

settings     the numbers a config may set (pure)
parcels      what travels beside the weights, opaque: handed in, and shown (no torch)
peer_progress  where one peer stands, what became of its offers, and its weights after that
evaluations  evidence on how versions play: evaluations, learners' episodes (no torch)
version_comparison  the newest version against the best one, beyond chance (pure)
resume       going on after a restart
exchange     a job's WeightExchange
friend_exchange  a WeightExchange of a friend's job: reads the owner's folder, writes its own
friends      entry: who takes part with an account of his own: add, remove, list
history      commit records and their flaws, for reports (no torch)
locate       finds the shared weights that a command means
backup       a copy where no purge comes (no torch)
lineage      a version's contributions, refusals and adoptions, as lines of text too (pure)
lineage_plot  the same as one picture (the only importer of matplotlib)
weights_report  the state of a run's or a laptop's shared weights as one record (no torch)
mirror       entry: keep a small copy in the home directory
restore      entry: put back what a purge took
log          entry: the lineage, line by line or as a picture
status       entry: how shared weights stand
rollback     entry: go back to an older version
import_export  a version as a file, and such a file as the beginning of a run
model        entry: export, import, show
sync         entry behind ``sync_weights.sh``: pull, push, bidirectional, status, setup, login

Callers may use: exchange.SharedExchange, friend_exchange.join, LaptopExchange and PulledVersions of
laptop.laptop_exchange, laptop.pulled_folder.newest_verified, settings.ExchangeSettings and
settings.from_config, encoding.state_codec.decode, sync.main, import_export.card_in.
"""
