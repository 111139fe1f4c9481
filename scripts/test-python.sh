#!/usr/bin/env bash
# Builds the package for Python in an environment of its own and runs mypy and pytest on it; the
# arguments go to pytest. STILLFRAME_KILLS is how often the tests kill a program.
set -euo pipefail
cd "$(dirname "$0")/../python"
target="${CARGO_TARGET_DIR:-$PWD/target}"
export CARGO_TARGET_DIR="$target"

python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
    echo "!!! SKIPPED: Python: there is no python3 of 3.11 or later with venv"
    exit 0
}
environment="$target/environment"
[ -x "$environment/bin/python" ] || python3 -m venv "$environment"
export PATH="$environment/bin:$PATH" VIRTUAL_ENV="$environment"
pip install -q 'maturin>=1.8,<2' duckdb mypy numpy pyarrow pytest redis || {
    echo "!!! SKIPPED: Python: pip cannot install what the tests need"
    exit 0
}
cargo fetch --quiet --locked || {
    echo "!!! SKIPPED: Python: what the package needs cannot be fetched"
    exit 0
}
maturin develop --quiet --locked
mypy
pytest -q "$@"
