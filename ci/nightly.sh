#!/usr/bin/env bash
# One night's run, for a cron entry or a CI job:
#
#   ci/nightly.sh [FOLDER [ARGUMENT...]]
#
# FOLDER gets junit.xml and summary.md (default: out/nights/ and the time in UTC); what an earlier night left
# there is removed first. The arguments go to the session, such as --platform a2a3. Ends with the pipeline's own
# exit code. From the environment:
#
#   NIGHTLY_SESSION    the Nox session (default: device)
#   NIGHTLY_DEADLINE   when the run must have ended, with a valid report (default: 6h)
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
