"""A laptop's way to the cluster: logins, keys, carriers, one pull, one push.

remote            ssh options, one shared connection, what a failure means
carrier           what carries files, as a Protocol
rsync             the carrier: argument lists that stock macOS understands, and their execution
sftp              the carrier without rsync
meter             progress of a transfer, for people
stopping          a signal to end on
sync_settings     who and where the cluster is: command line, environment, remembered settings
ways              by which login, key and transport a pull and a push go
fetching          one version by its route, decoded and verified (no torch)
transfer          one pull, one push
turns             one transfer at a time in a laptop's folder
keys              a laptop's own three keys, made once
authorized_lines  what each key may do at the other end (pure)
first_look        what a person's own login finds there
trials            each key does what it is for and is refused the rest
laptop_keys       the keys at one cluster: lines, how to install them, trials
setup             first contact: keys, connection, what is missing
opening           ``login``: a person opens the one connection that all go over
stream_token      the secret of the stream, fetched to where its viewer looks
"""
