#!/bin/bash
# launchd/uninstall.sh: undo install.sh: stop the agent and remove its file. The pulled weights stay.
set -eu
case "${1:-}" in
  '') ;;
  -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 0 ;;
  *) printf "error: uninstall.sh has no option '%s'\n  what to do: uninstall.sh --help\n" "$1" >&2; exit 2 ;;
esac

label=com.pokemon.sync
system=${DADDY_INIT:-$([ "$(uname -s)" = Darwin ] && echo launchd || echo systemd)}

if [ "$system" = launchd ]; then
  target=$HOME/Library/LaunchAgents/$label.plist
  [ -e "$target" ] && { launchctl unload "$target" 2>/dev/null || true; }
else
  target=${XDG_CONFIG_HOME:-$HOME/.config}/systemd/user/pokemon-sync.service
  systemctl --user disable --now pokemon-sync.service 2>/dev/null || true
fi

if [ -e "$target" ]; then
  rm -f "$target"
  echo "removed $target"
else
  echo "nothing to remove: $target does not exist"
fi
