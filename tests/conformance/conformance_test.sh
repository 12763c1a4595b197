#!/bin/bash
# Makes checkpoints with the Python of the venv, then runs the tests that read them. Arguments: the
# script that makes the checkpoints, the test binary, and the filter that selects its tests.
set -euo pipefail

script=$(readlink -f "$1")
python="$(dirname "$script")/../../.venv/bin/python"
checkpoints="$TEST_TMPDIR/checkpoints"

rm -rf "$checkpoints"
mkdir -p "$checkpoints"
HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TRANSFORMERS_VERBOSITY=error HF_HUB_DISABLE_PROGRESS_BARS=1 \
  "$python" "$script" "$checkpoints"
exec "$2" --gtest_filter="$3"
