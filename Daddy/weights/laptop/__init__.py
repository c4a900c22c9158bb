"""A laptop's exchange with the run, and its way to the cluster.

pulled_folder    versions, receipts and totals in a pulled folder (no torch)
laptop_exchange  WeightExchange of a laptop: play only, or contribute too
pull_push        one pull, one push (no torch)
transport        rsync, SFTP, and the choice between them
ssh              logins, options, one shared connection, what a failure means
keys             a laptop's own three keys: lines for the other end, trials
setup            first contact: keys, connection, what is missing
"""
