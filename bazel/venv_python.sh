#!/bin/bash
# Runs a Python file with the venv of the checkout that this script is part of.
set -euo pipefail
here="$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
exec "$here/../.venv/bin/python" "$@"
