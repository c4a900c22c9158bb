"""Everything under ``shared_weights/``: how jobs share one policy and how it reaches laptops.

strict      JSON read strictly into dataclasses (pure)
manifest    the records on disk, strict and canonical (pure)
admission   the gate's rules: which contributions count, each refusal with its reason (pure)
weighting   how far each moves the shared weights, and when to merge (pure)
polyak      arithmetic on state dicts (pure; torch)
settings    the numbers a config may set (pure)
codec       state dict to safetensors bytes and back (torch)
durable     files whole or not at all, with named crash points
store       the folder protocol: card, blobs, versions, heads (no torch)
offers      contributions on disk: of jobs, and of laptops in the inbox
watch       silence and age on one's own clock
merger      one merge, from pending contributions to the next version
replay      a version again from its inputs: verify, repair
retention   what may go, and when
exchange    a job's WeightExchange
laptop      a laptop's WeightExchange, over pulled versions and an outbox
local       the newest complete, verified version in a pulled folder (no torch)
history     the chain of versions, for reports (no torch)
remote      ssh options, one shared connection, what a failure means
rsync       argument lists that stock macOS understands, and their execution
sync_settings  who and where the cluster is: environment, remembered settings
transfer    one pull, one push
setup       first contact: key, connection, what is missing
sync        entry behind ``sync_weights.sh``: pull, push, bidirectional, status, setup

Callers may use: exchange.SharedExchange, laptop.LaptopExchange, settings.ExchangeSettings,
local.newest_verified, codec.decode, history.read_history, sync.main.
"""
