#!/bin/bash
# Measures the broker that STRANDLINE_BIN names (target/release/strandline); `cargo xtask bench` builds it and calls this.
# Options: run.sh --help. How to read the result: docs/benchmarks/README.md.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tools=${STRANDLINE_TOOLS:-$here/../../.tools}
if [ ! -x "$tools/bin/bench-load" ] || [ ! -x "$tools/venv/bin/python" ]; then bash "$here/../install.sh"; fi
exec env PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 "$tools/venv/bin/python" "$here/bench.py" "$@"
