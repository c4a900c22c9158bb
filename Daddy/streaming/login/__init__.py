"""What a relay on the login node is made of: between the jobs and one viewer.

spool, address          what jobs leave in the run's folder: files, and where they listen
direct                  pictures straight from the jobs
fleet, programme        what all jobs say; who is shown (pure)
playout, pace           when a picture goes out, and how many a second
link                    the connection to the viewer
seats, script, pipes    relays that a viewer's own ssh has started
featured                the last pictures, for reports
"""
