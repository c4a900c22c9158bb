"""A real Slurm cluster and its login node on this one host, for tests, demos and the curious.

Standard library only, no import of Daddy: it must run on a bare machine before anything is
installed. The doors are the executables ``up``, ``down``, ``status`` and ``install`` beside this
file; ``python3 cluster/testbed …`` is the same.

    cli          the four commands and what they print
    decide       mode, addresses, ports and users on this machine
    furnish      writes every file of the folder
    probe        asks a test cluster how it is
    launch       from nothing to a cluster that answers, and back
    layout       every path of the test cluster's folder, and its state file
    slurm_texts  Pure: settings → slurm.conf and its companions
    login_texts  Pure: settings → sshd_config, ssh_config, env.sh, users
    packages     programs: the system's, or unpacked Debian packages
    apt          Door to apt and dpkg: download, unpack, touch nothing else
    accounting   MariaDB and slurmdbd, the account and the cap per user
    supervisor   the one process that owns all others and takes them with it when it goes
    machines     login and compute nodes with own networks, host names, users (root only)
    syscalls     Door to the Linux calls that Python 3.10 lacks
    netlink      Door to the kernel's network settings: veth pairs and addresses, without iproute2
    processes    who is alive, who descends from whom, who is left over, and how they end
    shaper       a slow or broken link between ssh and the login node, where the kernel has no netem
    commands     short children with a timeout
    say          one line per step, and a sign of life every two seconds of waiting
"""
