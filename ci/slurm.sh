#!/usr/bin/env bash
# A run on the nodes of a Slurm allocation: starts Ray on each node, runs the pipeline on them, and ends Ray.
#
#   sbatch --nodes=10 --ntasks-per-node=1 --exclusive ci/slurm.sh [ARGUMENT...]
#
# The arguments, such as --platform a2a3 --deadline 8h, go to `python -m pipeline run --executor ray`; its exit code is
# that of this script. Every node must have the same Python environment at the same path. Environment variables:
#
#   PIPELINE_PYTHON_BIN   the folder of that environment's programs (default: .nox/environment/bin of this checkout)
#   PIPELINE_RAY_PORT     the port of the head (default: 6380)
#   PIPELINE_RAY_NODE     more words for `ray start` on every node, such as --resources={"compiler":4}
set -euo pipefail

root=${SLURM_SUBMIT_DIR:-$(dirname "$0")/..}
cd "$root"
programs=${PIPELINE_PYTHON_BIN:-$PWD/.nox/environment/bin}
port=${PIPELINE_RAY_PORT:-6380}
read -r -a words <<<"${PIPELINE_RAY_NODE:-}"

# Only holders of the token can use this cluster: srun hands it to the other nodes in the environment.
export RAY_AUTH_MODE=token
RAY_AUTH_TOKEN=$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')
export RAY_AUTH_TOKEN
# Ray makes its workers give way to everything else on a node; here they are the work.
export RAY_worker_niceness=0

# As Slurm calls this node, which need not be what the host calls itself.
head=${SLURMD_NODENAME:-$(hostname)}
host=$(hostname -I | cut -d' ' -f1)
log=$(mktemp)
nodes=
end_ray() {
  # The head ends last: the other nodes say goodbye to it.
  for one in $nodes $ray; do
    kill "$one" 2>/dev/null || true
    wait "$one" || true
  done
  rm -f "$log"
}
"$programs/ray" start --head --port="$port" --node-ip-address="$host" --include-dashboard=false \
  --disable-usage-stats --block "${words[@]}" >"$log" 2>&1 &
ray=$!
trap end_ray EXIT
until grep -q "Ray runtime started" "$log"; do
  if ! kill -0 "$ray" 2>/dev/null; then
    cat "$log" >&2
    exit 6
  fi
  sleep 1
done
others=$((${SLURM_JOB_NUM_NODES:-1} - 1))
if ((others > 0)); then
  srun --nodes="$others" --ntasks="$others" --ntasks-per-node=1 --exclude="$head" \
    "$programs/ray" start --address="$host:$port" --disable-usage-stats --block "${words[@]}" >/dev/null &
  nodes=$!
fi

# A node that joins later is used as well, so the run need not wait for all of them.
"$programs/python" -m pipeline run --executor ray --address "$host:$port" "$@"
