#!/bin/bash
# Makes the checkpoints with the Python of the venv, then compares. Arguments: the comparing binary
# and the script, as runfiles.
set -euo pipefail

script=$(readlink -f "$2")
python="$(dirname "$script")/../../.venv/bin/python"
checkpoints="$TEST_TMPDIR/checkpoints"

rm -rf "$checkpoints"
mkdir -p "$checkpoints"
HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TRANSFORMERS_VERBOSITY=error HF_HUB_DISABLE_PROGRESS_BARS=1 \
  "$python" "$script" "$checkpoints"
exec "$1"
