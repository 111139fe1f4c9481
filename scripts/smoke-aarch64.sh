#!/usr/bin/env bash
# Builds a key-value store on the library for aarch64 and runs it under qemu-aarch64: checkpoints by
# Imprint, a log, kill -9 and recovery. Half a minute; the tests themselves: .ci/long aarch64.
# Needs qemu-aarch64 and aarch64-linux-gnu-gcc (apt-get install qemu-user gcc-aarch64-linux-gnu) and
# the target's standard library; skipped, loudly, where one of them is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

target=aarch64-unknown-linux-gnu
for tool in qemu-aarch64 aarch64-linux-gnu-gcc; do
    command -v "$tool" >/dev/null || { echo "!!! SKIPPED: aarch64: $tool is missing" && exit 0; }
done
[ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ] ||
    timeout 60 rustup target add "$target" >/dev/null 2>&1 ||
    { echo "!!! SKIPPED: aarch64: no standard library (rustup target add $target)" && exit 0; }

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
cargo build --locked --quiet --target "$target" -p stillframe-durability --example key_value
store=(qemu-aarch64 -L /usr/aarch64-linux-gnu
    "${CARGO_TARGET_DIR:-target}/$target/debug/examples/key_value")
fail() {
    echo "aarch64: $*" >&2
    exit 1
}

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
"${store[@]}" "$folder/one" set 7 700
got="$("${store[@]}" "$folder/one" get 7)"
[ "$got" = 700 ] || fail "700 was set, and $got is there"

# Moves money about until it is killed; each start checks that no money was lost or made.
for _ in 1 2 3; do
    "${store[@]}" "$folder/two" transfer >"$folder/said" &
    for _ in $(seq 1200); do # where a kill comes is chance
        ! grep -q "^acknowledged" "$folder/said" || break
        sleep 0.1
    done
    kill -KILL $! || fail "transfer ended by itself"
    wait $! 2>/dev/null || true
    acknowledged="$(sed -n 's/^acknowledged //p' "$folder/said" | tail -n 1)"
    recovered="$("${store[@]}" "$folder/two" count | sed 's/.*, \([0-9]*\) actions.*/\1/')"
    echo "aarch64: ${acknowledged:-0} acknowledged before a kill, $recovered recovered"
    [ "$recovered" -ge "${acknowledged:-0}" ] || fail "acknowledged actions are lost"
done
