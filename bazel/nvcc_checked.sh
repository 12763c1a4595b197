#!/usr/bin/env bash
# Runs nvcc and fails if ptxas reports serialized warpgroup products (C7510 to C7520). Such a kernel
# would be correct but a third slower. C7519 is allowed, because it only reports an added wait.
set -euo pipefail

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! "$@" >"$log" 2>&1; then
  grep -v '^ptxas info' "$log" >&2 || true
  exit 1
fi
if grep -E 'C75(1[0-8]|20)' "$log" >&2; then
  echo "nvcc_checked: ptxas serialised warpgroup products, see above" >&2
  exit 1
fi
grep -E '(^|[^0-9])warning' "$log" >&2 || true
