#!/usr/bin/env bash
# One night's run, for a timer, a cron entry or a CI job:
#
#   ci/nightly.sh [FOLDER [ARGUMENT...]]
#
# junit.xml, summary.md, results.json and news.md are written to FOLDER (default: out/nights/ and the time in UTC); those
# of an earlier night are removed first, so none of them can be the --baseline. The arguments, such as --platform a2a3,
# go to the session; after a card or toolchain was removed for good, call it once with --allow-new-skips. The exit code
# is the pipeline's own: 6 means that the environment could not run everything, and no kernel was found wrong.
# Environment variables:
#
#   NIGHTLY_SESSION    the Nox session (default: device)
#   NIGHTLY_DEADLINE   the time within which the run must end, with a valid report (default: 6h)
#   NIGHTLY_WEBHOOK_FILE
#                      a file with the address of a webhook that is told how the night went
#   PIPELINE_WEBHOOK   the address itself; no job of the run gets to see it
set -euo pipefail

# On GitHub and GitLab it is the address, for the job that merges alone: kernels would see it here.
if [ -n "${NIGHTLY_WEBHOOK:-}" ]; then
  echo "NIGHTLY_WEBHOOK is for the job that merges: unset it here, and name a file with the address in NIGHTLY_WEBHOOK_FILE" >&2
  exit 4
fi
if [ $# -gt 0 ]; then
  folder=$(realpath -m -- "$1")
  shift
fi
webhook=${NIGHTLY_WEBHOOK_FILE:+$(realpath -m -- "$NIGHTLY_WEBHOOK_FILE")}
address=${PIPELINE_WEBHOOK:-}
unset PIPELINE_WEBHOOK
output=out
baseline=
before=
for word in "$@"; do
  [ "$before" != --output ] || output=$word
  [ "$word" = "${word#--output=}" ] || output=${word#--output=}
  [ "$before" != --baseline ] || baseline=$word
  [ "$word" = "${word#--baseline=}" ] || baseline=${word#--baseline=}
  before=$word
done

cd "$(dirname "$0")/.."
folder=${folder:-$PWD/out/nights/$(date -u +%Y%m%d-%H%M%S)}
junit=$folder/junit.xml
summary=$folder/summary.md
for old in "$folder" "$junit" "$summary" "$folder/results.json" "$folder/news.md"; do
  if [ -n "$baseline" ] && [ "$(realpath -m -- "$baseline")" = "$(realpath -m -- "$old")" ]; then
    echo "--baseline $baseline: this night's files take the place of it; name another folder for them" >&2
    exit 4
  fi
done
mkdir -p "$folder"
rm -f "$junit" "$summary" "$folder/results.json" "$folder/news.md"

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
  exit "$status"
fi

# Whatever becomes of the news, the night's verdict stands.
{
  run=$(sed -n '/<property name="run"/{s/.*<property name="run" value="\([0-9a-f-]*\)".*/\1/p;q}' "$junit")
  cp "$output/runs/$run/results.json" "$folder"
  told=(--output "$output" --markdown "$folder/news.md")
  [ -z "${GITHUB_ACTIONS:-}" ] || told+=(--annotations)
  [ -z "$webhook" ] || told+=(--webhook "$webhook")
  PIPELINE_WEBHOOK=$address .venv/bin/nox -s notify -- "$run" "${told[@]}"
} || echo "not everybody was told of this night, see above; exit code $status is that of the run" >&2
exit "$status"
