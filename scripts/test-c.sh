#!/usr/bin/env bash
# The C library: its header is up to date, it installs, and programs in C do what docs/embed/c.md
# says. Builds c/, a workspace of its own.
#   --sanitize   the programs under AddressSanitizer and UndefinedBehaviorSanitizer, too
#   --go         the example in Go, with its race detector
#   --kills N    rounds of kill -9 (20)
set -euo pipefail
cd "$(dirname "$0")/../c"

sanitize=0 go=0 kills=20
while [ $# -gt 0 ]; do
    case "$1" in
    --sanitize) sanitize=1 ;;
    --go) go=1 ;;
    --kills) kills="$2" && shift ;;
    *) echo "$0: there is no option $1" >&2 && exit 2 ;;
    esac
    shift
done

command -v pkg-config >/dev/null || {
    echo "!!! SKIPPED: C: pkg-config is missing"
    exit 0
}
cargo fetch --quiet --locked || {
    echo "!!! SKIPPED: C: what the library needs cannot be fetched"
    exit 0
}
cargo test --quiet
scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
make --quiet install PROFILE="${PROFILE:-dev}" PREFIX="$scratch/prefix"
export PKG_CONFIG_PATH="$scratch/prefix/lib/pkgconfig" LD_LIBRARY_PATH="$scratch/prefix/lib"

# compile OUTPUT SOURCE FLAG...: against the shared library.
compile() {
    # shellcheck disable=SC2046
    "${CC:-cc}" -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -O1 -g -o "$1" "$2" "${@:3}" \
        $(pkg-config --cflags --libs stillframe) -pthread
}

# run NAME FLAG...: every program, with these flags of the compiler.
run() {
    local name="$1" folder="$scratch/$1" source
    mkdir "$folder"
    for source in tests/*.c examples/*.c; do
        compile "$folder/$(basename "$source" .c)" "$source" "${@:2}"
    done
    mkdir -p "$folder"/data/{store,kill,server}
    echo "C, $name:"
    "$folder/store" "$folder/data/store"
    "$folder/kill" "$folder/data/kill" "$kills"
    "$folder/server" "$folder/data/server"
    for source in examples/*.c; do
        mkdir "$folder/data/example"
        (cd "$folder/data/example" && "$folder/$(basename "$source" .c)")
        rm -r "$folder/data/example"
    done
}

run plain
if [ "$sanitize" -eq 1 ]; then
    export UBSAN_OPTIONS=print_stacktrace=1
    run sanitized -fsanitize=address,undefined -fno-sanitize-recover=all
fi

# The archive, and C++, which reads the same header.
cc -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -I include -o "$scratch/static" tests/store.c \
    "$scratch/prefix/lib/libstillframe.a" -pthread -ldl -lm -lgcc_s
mkdir "$scratch/static-data" && "$scratch/static" "$scratch/static-data"
if command -v c++ >/dev/null; then
    echo '#include <stillframe.h>' |
        c++ -x c++ -std=c++17 -Wall -Wextra -Werror -fsyntax-only -I include -
fi

if [ "$go" -eq 1 ]; then
    export PATH="$PATH:/usr/local/go/bin"
    command -v go >/dev/null || { echo "!!! SKIPPED: Go: it is missing" && exit 0; }
    # Go keeps what pkg-config said of the last prefix; a flag of this one makes it ask again.
    export CGO_LDFLAGS="-L$scratch/prefix/lib"
    (cd examples/raft-go && go vet ./... && go test -race -count=1 ./...)
fi
