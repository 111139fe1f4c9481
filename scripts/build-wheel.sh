#!/usr/bin/env bash
# Makes python/dist/stillframe-*.whl for Linux: the module for Python, and the binary as a script
# beside it. It needs Rust and python3 with venv; zig, which links for an old glibc, is of PyPI.
#   scripts/build-wheel.sh [x86_64 | aarch64]     (rustup target add aarch64-unknown-linux-gnu)
# PROFILE=release is quicker to build, and larger. CARGO_TARGET_DIR as for cargo.
set -euo pipefail
cd "$(dirname "$0")/.."
root="$PWD"
profile="${PROFILE:-dist}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$root/target/wheel}"
export CARGO_PROFILE_DIST_STRIP=symbols CARGO_PROFILE_RELEASE_STRIP=symbols
machine="${1:-x86_64}"
case "$machine" in
x86_64 | aarch64) triple="$machine-unknown-linux-gnu" ;;
*) echo "$0: x86_64 or aarch64, not $machine" >&2 && exit 2 ;;
esac

tools="$CARGO_TARGET_DIR/tools"
[ -x "$tools/bin/maturin" ] || python3 -m venv "$tools"
"$tools/bin/pip" install -q 'maturin>=1.8,<2' 'cargo-zigbuild>=0.19' 'ziglang>=0.13' wheel
export PATH="$tools/bin:$PATH"

cargo zigbuild --locked --profile "$profile" --target "$triple.2.17" --package stillframe-cli

cd python
rm -f dist/stillframe-*_"$machine".whl
maturin build --locked --profile "$profile" --zig --target "$triple" \
    --compatibility manylinux_2_17 --out dist

# The binary becomes a script of the wheel: pip installs it beside python.
unpacked="$(mktemp -d)"
trap 'rm -rf "$unpacked"' EXIT
wheel="$(echo dist/stillframe-*_"$machine".whl)"
python -m wheel unpack --dest "$unpacked" "$wheel"
folder="$(echo "$unpacked"/stillframe-*)"
scripts="$folder/$(basename "$folder").data/scripts"
mkdir -p "$scripts"
install -m 755 "$CARGO_TARGET_DIR/$triple/$profile/stillframe" "$scripts/stillframe"
rm "$wheel"
python -m wheel pack --dest-dir dist "$folder"

bytes="$(stat -c %s "$wheel")"
echo "python/$wheel: $bytes bytes"
[ "$bytes" -le 15000000 ] || { echo "a wheel has 15 MB at most" >&2; exit 1; }
