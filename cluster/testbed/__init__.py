"""Starts a real Slurm cluster with a login node on this one host, for tests and demonstrations.

Uses the standard library only and imports nothing of Daddy, because it must run before anything is
installed. The executables ``up``, ``down``, ``status`` and ``install`` beside this file are its
commands; ``python3 cluster/testbed …`` does the same.

    cli             the commands and their output
    plan_addresses  chooses mode, addresses, ports and users on this machine
    write_files     writes every file of the test cluster's folder
    probe           checks which daemons run and answer
    launch          starts and ends a test cluster
    layout          the paths of the test cluster's folder, and its state file
    slurm_texts     Pure: settings → slurm.conf, gres.conf, slurmdbd.conf and others
    login_texts     Pure: settings → sshd_config, ssh_config, env.sh, users
    packages        finds programs: the system's, or unpacked Debian packages
    apt             Adapter for apt and dpkg: downloads and unpacks packages, changes nothing else
    accounting      MariaDB and slurmdbd, the account and the job limit per user
    supervisor      the parent process of all daemons and jobs, which ends them when it ends
    namespaces      login and compute nodes with own networks, host names, users (root only)
    syscalls        Adapter for the Linux calls that Python 3.10 lacks
    netlink         Adapter for the kernel's network settings: veth pairs, addresses, no iproute2
    processes       identifies, finds and ends processes by process id and start time
    shaper          a slow or broken link between ssh and the login node, without the kernel's netem
    run_child       runs a short program with a timeout
    progress        progress lines: one per step, and one every two seconds of waiting
"""
