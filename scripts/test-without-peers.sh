#!/usr/bin/env bash
# Runs the tests that use programs beside this project where those programs are missing: each test
# passes, and says what it skipped.
#
#   scripts/test-without-peers.sh          without any of them
#   scripts/test-without-peers.sh PEER     without one: redis-server, redis-cli, ... (see below)
#   scripts/test-without-peers.sh each     without each by itself, one after the other
#
# A program is missing because PATH leads to a folder of links to all others; redis-py because
# Python finds a module of its name first that cannot be imported; userfaultfd because strace
# refuses the call.
set -euo pipefail
cd "$(dirname "$0")/.."

# The kernel may have no userfaultfd: the algorithm that needs it says so.
without_userfaultfd() {
    printf '\n==> without userfaultfd\n'
    cargo test --no-run --quiet -p stillframe --lib
    strace -f --seccomp-bpf -o /dev/null -e trace=userfaultfd \
        -e inject=userfaultfd:error=EPERM cargo test --quiet -p stillframe --lib -- userfault
}

programs=(redis-server redis-cli redis-benchmark redis-check-rdb openssl strace)
others=(redis-py python redis.conf versitygw)
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT

# The tests that ask for a peer. Of the whole workspace, so that what `cargo test --workspace` has
# built is used as it is.
codecs=(--workspace --test redis --test lab_servers)
proof=(--workspace --test proof)
proofs=(archived:: clients:: configuration:: collections:: files:: import:: introspection::
    operations:: permissions:: programs:: requests:: tools:: settings:: transcript:: twins::
    newer:: replication::sentinel replication::migration replication::failover journal::always
    lifecycle:: load::saves load::ycsb load::every load::a_rewrite saving:: scanning::)

# A folder of links to every program in PATH but those named.
links() {
    local folder
    mkdir "$scratch/bin"
    # From the last to the first: what PATH finds first takes the place of the others.
    for folder in $(tr ':' '\n' <<<"$PATH" | tac); do
        [ ! -d "$folder" ] || ln -sf "$folder"/* "$scratch/bin/"
    done
    (cd "$scratch/bin" && rm -f "$@")
}

without() {
    local absent=("$@") settings=()
    for name in "${absent[@]}"; do
        case "$name" in
        redis-py)
            mkdir "$scratch/python"
            echo 'raise ImportError("there is no redis-py")' >"$scratch/python/redis.py"
            settings+=("PYTHONPATH=$scratch/python")
            ;;
        python) settings+=("STILLFRAME_PYTHON=/nonexistent/python3") ;;
        versitygw) settings+=("XDG_CACHE_HOME=$scratch/no-cache") ;;
        redis.conf) settings+=("STILLFRAME_REDIS_CONF=/nonexistent/redis.conf") ;;
        *) [[ " ${programs[*]} " == *" $name "* ]] || { echo "$0: no peer $name" >&2 && exit 2; } ;;
        esac
    done
    printf '\n==> without %s\n' "${absent[*]}"
    links "${absent[@]}"
    settings+=("PATH=$scratch/bin")
    env "${settings[@]}" cargo test --quiet "${codecs[@]}"
    env "${settings[@]}" cargo test --quiet "${proof[@]}" -- "${proofs[@]}"
    rm -rf "${scratch:?}"/*
}

# Built with all that is there; the tests alone miss something.
cargo test --no-run --quiet "${codecs[@]}"
cargo test --no-run --quiet "${proof[@]}"
case "${1:-all}" in
all) without "${programs[@]}" "${others[@]}" ;;
each)
    for name in "${programs[@]}" "${others[@]}"; do without "$name"; done
    without_userfaultfd
    ;;
userfaultfd) without_userfaultfd ;;
*) without "$1" ;;
esac
