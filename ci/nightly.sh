#!/usr/bin/env bash
# One night's run, for a cron entry or a CI job:
#
#   ci/nightly.sh [FOLDER [ARGUMENT...]]
#
# junit.xml and summary.md are written to FOLDER (default: out/nights/ and the time in UTC); those of an earlier
# night are removed first. The arguments, such as --platform a2a3, go to the session; after a card or toolchain was
# removed for good, call it once with --allow-new-skips. The exit code is the pipeline's own. Environment variables:
#
#   NIGHTLY_SESSION    the Nox session (default: device)
#   NIGHTLY_DEADLINE   the time within which the run must end, with a valid report (default: 6h)
set -euo pipefail

if [ $# -gt 0 ]; then
  folder=$(realpath -m -- "$1")
  shift
fi
cd "$(dirname "$0")/.."
folder=${folder:-$PWD/out/nights/$(date -u +%Y%m%d-%H%M%S)}
junit=$folder/junit.xml
summary=$folder/summary.md
mkdir -p "$folder"
rm -f "$junit" "$summary"

status=0
{
  { [ -x .venv/bin/nox ] || { python3 -m venv .venv && .venv/bin/pip install --quiet "nox>=2026.8.17"; }; } &&
    .venv/bin/nox -s "${NIGHTLY_SESSION:-device}" -- \
      --junit "$junit" --summary "$summary" --deadline "${NIGHTLY_DEADLINE:-6h}" "$@"
} || status=$?

if [ ! -e "$junit" ]; then
  [ "$status" -ne 0 ] || status=3
  message="no report was written (exit code $status): the log says why"
  echo "$message" >&2
  [ -e "$summary" ] || echo "## Failed: $message" >"$summary"
fi
exit "$status"
