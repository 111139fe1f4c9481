#!/bin/sh
# Installs the packed npm packages and tests them with ioredis, node-redis, BullMQ, vitest, jest and
# tsc: scripts/test-npm.sh BINARY. It needs node and npm's registry.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$root/scripts/build-npm.sh" "${1:?name the binary, such as target/dist/stillframe}" "$work/packed"
cp -r "$root/npm/test" "$work/test"
cd "$work/test"
npm install --silent --no-audit --no-fund "$work"/packed/*.tgz
STILLFRAME_PAGES="$root/docs/embed/node.md:$root/npm/stillframe/README.md" node --test server.js
npx vitest run --globals
npx jest globals.spec.cjs
npx tsc
