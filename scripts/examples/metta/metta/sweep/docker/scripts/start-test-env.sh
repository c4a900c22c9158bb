#!/usr/bin/env bash
# First program of each container: gives out run names at localhost:8080 and :8081 from the shared
# volume, as in every other container. Commands of a rank come by `docker exec`.
exec python -m Daddy.search.coordinator --run-dir /daddy/runs
