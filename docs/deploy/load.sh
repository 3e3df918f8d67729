#!/usr/bin/env bash
# Load what is new, with the settings in tap.yml; exit with 0 if everything is in the tables.
# STATE is kept in $STATE_FOLDER (by default beside this script). After a failure, run it again: it continues.
# With catalog.json beside it, nothing is discovered. For shards: `load.sh --write-plan`, then TAP_S3_FILES_SHARD=0/4.
set -euo pipefail
cd "$(dirname "$0")"
if [ -f pipeline.env ]; then # the environment of schedulers that set none, such as cron
  set -a
  . ./pipeline.env
  set +a
fi
folder="${STATE_FOLDER:-.}${TAP_S3_FILES_SHARD:+/shard-${TAP_S3_FILES_SHARD/\//-of-}}"
mkdir -p "$folder"
tap=(tap-s3-files --config tap.yml --config=ENV)
if [ -f catalog.json ]; then tap+=(--catalog catalog.json); fi
if [ "${1:-}" = --write-plan ]; then exec "${tap[@]}" --write-plan; fi

exec 9> "$folder/lock"
flock --nonblock 9 || { echo "load.sh: the run before still lasts" >&2; exit 0; }

# The target prints a STATE whenever all rows before it are in the tables, so the last line of any run is good.
if [ -s "$folder/states.jsonl" ]; then
  tail -n 1 "$folder/states.jsonl" > "$folder/state.json"
elif [ ! -s "$folder/state.json" ]; then
  echo '{}' > "$folder/state.json"
fi
"${tap[@]}" --state "$folder/state.json" |
  "${TARGET:-target-bigquery}" --config=ENV > "$folder/states.jsonl"
