"""A laptop's exchange with the run, and its connection to the cluster.

pulled_folder    versions, receipts and totals in a pulled folder (no torch)
laptop_exchange  WeightExchange of a laptop: play only, or contribute too
pull_push        one pull, one push (no torch)
key_receiver     the forced command of pull and push keys, copied to the cluster
rsync_sftp       rsync, SFTP, the receiver, and the choice between them
ssh_login        logins, options, one shared connection, errors of ssh explained
ssh_keys         a laptop's own three keys: lines for the cluster, checks
setup_wizard     first contact: keys, connection, missing programs
"""
