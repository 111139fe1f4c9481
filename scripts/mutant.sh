#!/usr/bin/env bash
# Whether the tests of a crate find a mistake, in seconds once they are built.
#
#   scripts/mutant.sh state SlabKeepsTag     a mistake of its list (mutant.rs, mutants.rs)
#   scripts/mutant.sh durability PATCH       one that a patch makes, which is taken back at the end
#
# Status 0: found. A patch is tried by the tests beside the code, in an eighth of their rounds, then
# by those in tests/.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -eq 2 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
package="stillframe-$1"
folder="$(cargo pkgid -p "$package" | sed 's|^path+file://||; s|#.*||')"

if [ ! -f "$2" ]; then
    grep -rqw "$2" "$folder/src" || { echo "$package has no mutant $2"; exit 2; }
    # Those tests fail where the mistake is not found.
    STILLFRAME_MUTANT="$2" cargo test --quiet -p "$package" --lib -- mistake mutant
    exit
fi
git apply "$2"
trap 'git apply --reverse "$2"' EXIT
for tests in --lib --tests; do
    # Without the tests of the mistakes that are listed: those take longest.
    if ! STILLFRAME_QUICK=1 timeout 300 \
        cargo test --quiet -p "$package" "$tests" -- --skip mistake --skip mutant; then
        echo "found by $tests"
        exit 0
    fi
done
echo "NOT FOUND: $2"
exit 1
