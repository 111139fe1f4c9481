#!/usr/bin/env bash
# Checks that the library, the durable layer and the codecs compile for other systems
# (docs/run/install.md). A target whose standard library cannot be had is skipped, loudly, unless
# RUST_LIBRARY names the folder "library" of the compiler's own sources of the same version (as in
# Debian's package rust-src), to make it from.
set -euo pipefail
cd "$(dirname "$0")/.."

targets=(aarch64-unknown-linux-gnu aarch64-apple-darwin x86_64-pc-windows-msvc)
packages=(-p stillframe -p stillframe-durability -p stillframe-state -p stillframe-resp
    -p stillframe-rdb)

for target in "${targets[@]}"; do
    check=(cargo check --locked --quiet --target "$target" "${packages[@]}")
    if [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ] ||
        timeout 60 rustup target add "$target" >/dev/null 2>&1; then
        RUSTFLAGS="-D warnings" "${check[@]}"
    elif [ -n "${RUST_LIBRARY:-}" ]; then
        RUSTFLAGS="-D warnings" RUSTC_BOOTSTRAP=1 __CARGO_TESTS_ONLY_SRC_ROOT="$RUST_LIBRARY" \
            "${check[@]}" -Zbuild-std=std,panic_unwind
    else
        echo "!!! SKIPPED: $target: its standard library cannot be had (rustup target add $target)"
        continue
    fi
    echo "compiles for $target"
done
