#!/bin/bash
# Install a background program that syncs the shared weights from login on: a launchd agent (macOS) or a
# systemd user unit (Linux). No root needed.
#   launchd/install.sh [pull|bidirectional] [user or user@host] [folder] [seconds]
#   launchd/install.sh --print [...]     print the file, install nothing
# Account and host: run ./Daddy/cluster/sync_weights.sh setup first, or export SYNC_CLUSTER_USER,
# SYNC_CLUSTER_HOST, SYNC_REMOTE_DIR (and SYNC_SSH_*, SYNC_TRANSPORT): they are written into the agent.
set -eu
case " $* " in *" -h "* | *" --help "*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;; esac

print=
[ "${1:-}" = --print ] && { print=1; shift; }
checkout=$(cd "$(dirname "$0")/.." && pwd)
command=${1:-pull} user=${2:-} folder=${3:-$HOME/shared_weights} seconds=${4:-5}
label=com.pokemon.sync
system=${DADDY_INIT:-$([ "$(uname -s)" = Darwin ] && echo launchd || echo systemd)}
names="SYNC_CLUSTER_USER SYNC_CLUSTER_HOST SYNC_REMOTE_DIR SYNC_SSH_CONFIG SYNC_SSH_PORT SYNC_SSH_KEY SYNC_TRANSPORT"

fail() { printf 'error: %s\n  what to do: %s\n' "$1" "$2" >&2; exit "$3"; }

case $command in pull | bidirectional) ;; *) fail "'$command' cannot be kept running" "write pull or bidirectional" 2 ;; esac
case $seconds in '' | *[!0-9.]*) fail "'$seconds' is no number of seconds" "write 5, for example" 2 ;; esac
case $checkout$folder$user in *'
'*) fail "a path holds a line break" "move it" 2 ;; esac

xml() { printf '%s' "$1" | sed -e 's/&/\&amp;/g' -e 's/</\&lt;/g' -e 's/>/\&gt;/g'; }
unit() { printf '"%s"' "$(printf '%s' "$1" | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/%/%%/g' -e 's/\$/$$/g')"; }

environment() {
  for name in $names; do
    value=${!name:-}
    [ -n "$value" ] || continue
    if [ "$system" = launchd ]; then
      printf '        <key>%s</key>\n        <string>%s</string>\n' "$name" "$(xml "$value")"
    else
      printf 'Environment=%s\n' "$(unit "$name=$value" | sed 's/\$\$/$/g')"
    fi
  done
}

# Replace @NAME@ by a value of any characters, without sed and its escapes.
fill() {
  text=$(cat "$checkout/launchd/$1")
  quote=$2
  put() { local value=$2; text=${text//"@$1@"/"$value"}; }
  put SCRIPT "$("$quote" "$checkout/Daddy/cluster/sync_weights.sh")"
  put COMMAND "$command"
  put USER "$("$quote" "$user")"
  put LOCAL "$("$quote" "$folder")"
  put SECONDS "$seconds"
  put LOG "$(xml "$HOME/Library/Logs/$label.log")"
  put ENVIRONMENT "$(environment)"
  printf '%s\n' "$text"
}

if [ "$system" = launchd ]; then
  target=$HOME/Library/LaunchAgents/$label.plist
  [ -n "$print" ] && { fill "$label.plist" xml; exit 0; }
  mkdir -p "$HOME/Library/LaunchAgents" "$HOME/Library/Logs"
  fill "$label.plist" xml >"$target"
  launchctl unload "$target" 2>/dev/null || true
  launchctl load "$target"
  echo "installed $target; its log: $HOME/Library/Logs/$label.log"
else
  target=${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user/pokemon-sync.service
  [ -n "$print" ] && { fill pokemon-sync.service unit; exit 0; }
  mkdir -p "$(dirname "$target")"
  fill pokemon-sync.service unit >"$target"
  if command -v systemctl >/dev/null && systemctl --user daemon-reload 2>/dev/null; then
    systemctl --user enable --now pokemon-sync.service
    echo "installed $target; its log: journalctl --user -u pokemon-sync"
  else
    echo "wrote $target; start it when you are logged in: systemctl --user enable --now pokemon-sync"
  fi
fi
