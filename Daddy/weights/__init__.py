"""Everything under ``shared_weights/``: how jobs share one policy and how it reaches laptops.

manifest    the records on disk: contributions, versions, heads (pure)
notices     the records that laptops read (pure)
layout      the list of tensors in safetensors bytes, its schema hash (pure; no torch)
planes      16-bit numbers rearranged for compression (pure; no torch)
wire        frames: a state whole, or the step from a version both sides hold (pure; no torch)
quantise    deltas as int8 with scales (pure; torch)
route       which frames a laptop fetches (pure)
strict      JSON read strictly into dataclasses (pure)
admission   the gate's rules: which contributions count, each refusal with its reason (pure)
fences      what a slot's older holders offer too late
usual       what the other jobs' contributions tell is usual, and which claims are believed (pure)
agreement   cosines between jobs' steps (pure)
conduct     which jobs work against the others, and who is shut out for how long (pure)
sights      how the jobs' newest steps look beside one another
judging     the gate at work on one: record and file
hearing     the gate at work on all of a version: values, beside one another
weighting   how far each moves the shared weights, and when to merge (pure)
polyak      arithmetic on state dicts (pure; torch)
elastic     the rule under which jobs keep weights of their own
average     the mean of the last versions, for who plays
settings    the numbers a config may set (pure)
codec       state dict to safetensors bytes and back (torch)
durable     files whole or not at all, with named crash points
store       the folder protocol: card, blobs, versions, heads (no torch)
wan         what laptops are offered: whole, compressed, and as steps (no torch)
parcels     what travels beside the weights, opaque: handed in, and shown (no torch)
evaluations  versions played against older ones: by jobs, and by laptops in the inbox
beats       signs of life: heartbeats of our jobs and of friends' (no torch)
offers      contributions on disk: of jobs, of friends' jobs, and of laptops in the inbox
sequential  the test that tells whether a version is worse than an older one (pure)
probation   which version is looked at, against which, and what follows (pure)
evidence    what was played says of the version on probation (no torch)
reverting   the version that takes back a bad one
examining   a job plays the version on probation, a pair at a time
watch       silence and age on one's own clock
fate        what became of a peer's offers (no torch)
progress    where one peer stands, and what that makes of its weights
merger      one merge, from pending contributions to the next version
replay      a version again from its inputs: verify, repair
retention   what may go, and when
resume      going on after a restart
exchange    a job's WeightExchange
joining     a WeightExchange of a friend's job: reads the owner's folder, writes its own
friends     entry: who takes part with an account of his own: add, remove, list
pulled      a laptop's WeightExchange that only takes
laptop      a laptop's that also contributes, through an outbox
owed        what quantising dropped, for a laptop's next process
effect      what a laptop's owner did for the run, added up (no torch)
receipts    what became of a laptop's contributions
local       the newest complete, verified version in a pulled folder (no torch)
history     the chain of versions, for reports (no torch)
adoptions   who took over which version, from the learners' events
lineage     a version's contributions, refusals and adoptions (pure)
lines       the lineage as lines of text (pure)
panels      what each panel of its picture shows
picture     the lineage as one picture (the only importer of matplotlib)
whereabouts which shared weights a command means
holes       what a purge took out (no torch)
best_states which states of an archive a small copy takes (pure)
mirroring   one pass of the copy in the home directory (no torch)
mirror      entry: keep that copy
writers     who may still write into a run
restore_plan  from what a run goes on after a purge, and as which number (pure)
sources     what a run can be restored from
restoring   a restore, looked at and done
restore     entry: put back what a purge took
usage       what a folder takes on the disk
report      how a run's shared weights stand, as one record (no torch)
pulled_report  the same of a laptop's folder
screen      that record as one screen (pure)
log         entry: the lineage, line by line or as a picture
status      entry: how shared weights stand
card        the model card of a file of weights (pure)
porting     a version as a file, and such a file as the beginning of a run
model       entry: export, import, show
remote      ssh options, one shared connection, what a failure means
carrier     what carries files, as a Protocol
rsync       the carrier: argument lists that stock macOS understands, and their execution
sftp        the carrier without rsync
meter       progress of a transfer, for people
stopping    a signal to end on
sync_settings  who and where the cluster is: command line, environment, remembered settings
ways        by which login, key and transport a pull and a push go
fetching    one version by its route, decoded and verified (no torch)
transfer    one pull, one push
turns       one transfer at a time in a laptop's folder
keys        a laptop's own three keys, made once
authorized_lines  what each key may do at the other end (pure)
first_look  what a person's own login finds there
trials      each key does what it is for and is refused the rest
laptop_keys  the keys at one cluster: lines, how to install them, trials
setup       first contact: keys, connection, what is missing
opening     ``login``: a person opens the one connection that all go over
sync        entry behind ``sync_weights.sh``: pull, push, bidirectional, status, setup, login

Callers may use: exchange.SharedExchange, joining.join, laptop.LaptopExchange,
pulled.PulledVersions, settings.ExchangeSettings and settings.from_config,
local.newest_verified, codec.decode, history.read_history, sync.main, card.card_in.
"""
