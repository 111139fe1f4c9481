#!/bin/sh
# Makes two npm packages: scripts/build-npm.sh BINARY [DIRECTORY]
#
# BINARY is a stillframe for Linux on x86-64, such as target/dist/stillframe, or on aarch64, as
# scripts/build-wheel.sh leaves it; its machine names its package. Nothing is published.
set -eu
binary=${1:?name the binary: cargo build --profile dist, then target/dist/stillframe}
out=$(mkdir -p "${2:-target/npm}" && cd "${2:-target/npm}" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
# The machine in the header of an ELF file.
case $(od -An -tx1 -j18 -N2 "$binary" | tr -d ' ') in
3e00) cpu=x64 strip=strip run= ;;
b700) cpu=arm64 strip=aarch64-linux-gnu-strip run="qemu-aarch64 -L /usr/aarch64-linux-gnu" ;;
*) echo "$binary is for neither x86-64 nor aarch64" >&2 && exit 1 ;;
esac
[ "$(uname -m)" != aarch64 ] || strip=strip run=
version=$($run "$binary" --version | cut -d' ' -f2)
for package in "linux-$cpu" stillframe; do
    rm -rf "${out:?}/$package"
    cp -r "$root/npm/$package" "$out/$package"
    grep -q "\"version\": \"$version\"" "$out/$package/package.json" ||
        { echo "npm/$package is not of version $version" >&2; exit 1; }
done
mkdir "$out/linux-$cpu/bin"
cp "$binary" "$out/linux-$cpu/bin/stillframe"
"$strip" "$out/linux-$cpu/bin/stillframe"
for package in "linux-$cpu" stillframe; do
    cp "$root"/LICENSE-* "$out/$package/"
    (cd "$out" && npm pack --silent "./$package")
done
