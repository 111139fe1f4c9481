#!/usr/bin/env bash
# SQL over images: answers compared with those of servers, then exported files read by DuckDB,
# pyarrow and polars, then a server asked by ADBC. Builds analytics/, a workspace of its own, which
# takes some 15 minutes.
#   --quick   only that what it needs is known and can be fetched
set -euo pipefail
cd "$(dirname "$0")/../analytics"

cargo fetch --quiet --locked || {
    echo "!!! SKIPPED: SQL: what it needs cannot be fetched"
    exit 0
}
[ "${1:-}" != --quick ] || exit 0
cargo clippy --quiet --locked --workspace --all-targets -- -D warnings
cargo fmt --all --check
cargo test --quiet --locked --workspace

venv="$(mktemp -d)"
trap 'rm -rf "$venv"' EXIT
python3 -m venv "$venv" && "$venv/bin/pip" install --quiet duckdb pyarrow polars adbc-driver-flightsql || {
    echo "!!! SKIPPED: exported files, Flight: DuckDB, pyarrow, polars, ADBC cannot be installed"
    exit 0
}
cargo build --quiet --locked
"$venv/bin/python" tests/readers.py target/debug/stillframe-query
"$venv/bin/python" tests/flight.py target/debug/stillframe-query
STILLFRAME_DUCKDB="$venv/bin/python" cargo test --quiet --locked --workspace --test answers duckdb
