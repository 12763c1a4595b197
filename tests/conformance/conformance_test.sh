#!/bin/bash
# Makes checkpoints with the Python of the venv, then compares. Arguments: the script that makes
# them, the comparing binary, and the tests of it that read them.
set -euo pipefail

script=$(readlink -f "$1")
python="$(dirname "$script")/../../.venv/bin/python"
checkpoints="$TEST_TMPDIR/checkpoints"

rm -rf "$checkpoints"
mkdir -p "$checkpoints"
HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TRANSFORMERS_VERBOSITY=error HF_HUB_DISABLE_PROGRESS_BARS=1 \
  "$python" "$script" "$checkpoints"
exec "$2" --gtest_filter="$3"
