#!/bin/sh
# Makes the two npm packages: scripts/build-npm.sh BINARY [DIRECTORY]
#
# BINARY is a stillframe for Linux on x86-64, such as target/dist/stillframe; nothing is published.
set -eu
binary=${1:?name the binary: cargo build --profile dist, then target/dist/stillframe}
out=$(mkdir -p "${2:-target/npm}" && cd "${2:-target/npm}" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
version=$("$binary" --version | cut -d' ' -f2)
for package in linux-x64 stillframe; do
    rm -rf "$out/$package"
    cp -r "$root/npm/$package" "$out/$package"
    grep -q "\"version\": \"$version\"" "$out/$package/package.json" ||
        { echo "npm/$package is not of version $version" >&2; exit 1; }
done
mkdir "$out/linux-x64/bin"
cp "$binary" "$out/linux-x64/bin/stillframe"
strip "$out/linux-x64/bin/stillframe"
for package in linux-x64 stillframe; do
    cp "$root"/LICENSE-* "$out/$package/"
    (cd "$out" && npm pack --silent "./$package")
done
