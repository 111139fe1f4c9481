#!/usr/bin/env bash
# Makes target/debian/stillframe_*.deb: the binary, its man pages and completions, the systemd unit.
# It needs cargo-deb (cargo install cargo-deb). PROFILE=dev builds without optimising.
set -euo pipefail
cd "$(dirname "$0")/.."
target="${CARGO_TARGET_DIR:-target}"
profile="${PROFILE:-dist}"
folder="$profile"
[ "$profile" = dev ] && folder=debug

cargo build --locked --profile "$profile" --package stillframe-cli --features measure

# What the binary says of itself, for the package to install beside it.
mkdir -p packaging/made
"$target/$folder/stillframe" man --all packaging/made
"$target/$folder/stillframe" completions bash >packaging/made/stillframe.bash
"$target/$folder/stillframe" completions zsh >packaging/made/_stillframe
"$target/$folder/stillframe" completions fish >packaging/made/stillframe.fish

cargo deb --locked --no-build --profile "$profile" --package stillframe-cli
