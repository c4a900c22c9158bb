#!/bin/bash
# Move shared weights between this machine and the cluster.
#   sync_weights.sh pull|push|bidirectional|status|setup|login [user or user@host] [folder here] [seconds]
#   sync_weights.sh pull                           once, into ~/shared_weights
#   sync_weights.sh pull "" ~/shared_weights 5     every five seconds
# Account and folder: from sync_weights.sh setup, or SYNC_CLUSTER_USER, SYNC_CLUSTER_HOST,
# SYNC_REMOTE_DIR. This script only finds the interpreter and runs Daddy.weights.sync. It adds
# Homebrew's folders to PATH, because launchd's PATH lacks them.
set -eu

here=$0
while [ -L "$here" ]; do
  link=$(readlink "$here")
  case $link in /*) here=$link ;; *) here=$(dirname "$here")/$link ;; esac
done
checkout=$(cd "$(dirname "$here")/../.." && pwd)

PATH=${PATH:-}:/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin
export PATH

run() {
  for python in "${DADDY_PYTHON:-}" "$checkout/.venv/bin/python"; do
    if [ -n "$python" ] && [ -x "$python" ]; then
      PYTHONPATH=$checkout${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m Daddy.weights.sync "$@"
    fi
  done
}
run "$@"

case " $* " in *" -h "* | *" --help "*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac
echo "error: Daddy is not installed in $checkout: there is no .venv/bin/python" >&2
echo "  what to do: cd $checkout && ./scripts/install" >&2
# launchd would start an agent again at once, into a log without an end: wait for the installation.
while [ -f "${HOME:-}/Library/LaunchAgents/${XPC_SERVICE_NAME:-}.plist" ]; do sleep 60; run "$@"; done
exit 9
