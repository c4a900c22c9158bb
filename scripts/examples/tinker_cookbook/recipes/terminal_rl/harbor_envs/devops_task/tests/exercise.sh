#!/bin/bash
# Runs the repaired program on folders of its own, and prints what it said and what it left.
run() {
  local name=$1 keep=$2
  shift 2
  mkdir -p "/tmp/exercise/$name" && cd "/tmp/exercise/$name" && touch "$@"
  echo "== $name"
  timeout 5 python3 /app/rotate.py "/tmp/exercise/$name" "$keep" 2> /dev/null < /dev/null | head -c 1000
  echo "-- left"
  ls "/tmp/exercise/$name"
}
run order 2 backup-30-01-2024.tar backup-02-03-2024.tar backup-15-12-2022.tar backup-09-06-2021.tar
run others 1 backup-05-05-2020.tar backup-06-05-2020.tar keep.txt backup-1-2-2019.tar backup-old.tar
run few 5 backup-11-11-2011.tar backup-12-11-2011.tar
