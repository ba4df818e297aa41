#!/usr/bin/env bash
# After the parts of a night are merged: remembers it, tells its news, and writes its pages.
#
#   ci/morning.sh FOLDER SITE
#
# FOLDER has the merged junit.xml and results.json, and gets news.md. SITE is made anew: the dashboard, and copies of the
# files of FOLDER; it is neither FOLDER, nor the current folder, nor one above them. Whatever goes wrong after that is a
# line, and changes nothing else. Environment variables:
#
#   PIPELINE_HISTORY   a PostgreSQL server that remembers the nights; without it, out/history.sqlite does
#   NIGHTLY_WEBHOOK_FILE
#                      a file with the address of a webhook that is told how the night went
#   PIPELINE_WEBHOOK   the address itself
set -euo pipefail

[ $# = 2 ] || {
  echo "ci/morning.sh: write ci/morning.sh FOLDER SITE" >&2
  exit 4
}
folder=$1
site=$2
whole=$(realpath -m "$site")
for kept in "$folder" .; do
  [[ $(realpath -m "$kept")/ != "${whole%/}"/* ]] || {
    echo "ci/morning.sh: SITE $site is made anew, and $kept would go with it: name another folder" >&2
    exit 4
  }
done
results=$folder/results.json
python=.nox/environment/bin/python

rm -rf "$site"
if [ -e "$results" ]; then
  "$python" -m pipeline history import "$results" || echo "this night is not remembered, see above" >&2
  told=(--markdown "$folder/news.md")
  [ -z "${NIGHTLY_WEBHOOK_FILE:-}" ] || told+=(--webhook "$NIGHTLY_WEBHOOK_FILE")
  "$python" -m pipeline notify "$results" "${told[@]}" || echo "not everybody was told, see above" >&2
  "$python" -m pipeline dashboard "$results" --site "$site" || echo "there is no dashboard, see above" >&2
fi
mkdir -p "$site" "$folder"
for file in "$folder"/*; do
  [ ! -f "$file" ] || cp "$file" "$site"
done
[ -e "$site/index.html" ] || {
  if [ -e "$folder/junit.xml" ]; then
    .nox/environment/bin/junit2html "$folder/junit.xml" "$site/index.html"
  else
    echo "This night has no report." >"$site/index.html"
  fi
} || echo "there is no page, see above" >&2
