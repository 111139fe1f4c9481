#!/usr/bin/env bash
# Whether the tests of a crate find a mistake, in seconds once they are built.
#
#   scripts/mutant.sh state SlabKeepsTag     a mistake of its list (mutant.rs, mutants.rs)
#   scripts/mutant.sh durability PATCH       one that a patch makes, which is taken back at the end
#
# Status 0: found; 1: not found; 2: it does not build; 3: a test did not end. A patch is tried by
# the tests beside the code, in an eighth of their rounds, then by those in tests/.
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
output="$(mktemp)"
trap 'git apply --reverse "$2"; rm "$output"' EXIT
for tests in --lib --tests; do
    # Without the tests of the mistakes that are listed: those take longest.
    # That it does not build, or takes long to, is no finding of a test.
    cargo test --quiet -p "$package" "$tests" --no-run || { echo "does not build: $2"; exit 2; }
    status=0
    STILLFRAME_QUICK=1 timeout 300 cargo test --quiet -p "$package" "$tests" -- \
        --skip every_mutant --skip every_mistake --skip each_mistake --skip a_mistake 2>&1 |
        tee "$output" || status=$?
    # A watchdog has ended the program: on a busy machine that is no finding.
    ! grep -q "^HANGS: " "$output" || status=124
    case $status in
        0) ;;
        124) echo "NOT ENDED in 300 s by $tests: $2"; exit 3 ;;
        *) echo "found by $tests"; exit 0 ;;
    esac
done
echo "NOT FOUND: $2"
exit 1
