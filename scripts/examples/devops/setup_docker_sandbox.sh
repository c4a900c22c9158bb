#!/usr/bin/env bash
# Begin two nodes and the coordinator on this machine, without Docker.
exec python -m Daddy.docker_launch start "$@"
