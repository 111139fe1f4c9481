#!/usr/bin/env python3
"""Runs the tests of packages that bring a Redis for the process, with Stillframe in its place.

    python/suites/run.py [pydocket] [fastmcp] [-- PYTEST-ARGUMENT...]

Both use burner-redis (docket's `memory://`). Their tests come from their source packages; all that
is installed has its version in requirements.txt. Each suite runs twice: with burner-redis, and with
standin/burner_redis.py. What passes with the first passes with the second, or stands in known.txt
with the reason; a test on that list that passes fails the run, too. Some of these tests give the
machine a fraction of a second, so what fails is run once more, one after the other. It uses the
package that `maturin develop` has built in python/.
"""
import os
import pathlib
import re
import subprocess
import sys
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "frameworks"))  # before this folder, whose name it has, too
from run import CACHE, run_tool  # noqa: E402

SUITE_SECONDS = 3000
PYTEST = ["-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:warnings", "--no-cov",
          "--tb=short", "-rfEp", "-n", "2"]
#: Per suite: version, tests, what pytest takes besides, settings of the environment.
SUITES = {
    "pydocket": ("0.27.0", ["tests"], ["--timeout", "120"], {"REDIS_VERSION": "memory"}),
    "fastmcp": ("4.1.4", ["tests/tasks", "tests/server/test_server_docket.py"],
                ["--timeout", "30"], {}),
}


def install(cache):
    """The interpreter that has what the suites need."""
    pins = (HERE / "requirements.txt").read_text()
    stamp = cache / "installed"
    if not stamp.is_file() or stamp.read_text() != pins:
        cache.mkdir(parents=True, exist_ok=True)
        run_tool([sys.executable, "-m", "venv", "--clear", "venv"], cache)
        run_tool(["venv/bin/pip", "install", "-q", "-r", HERE / "requirements.txt"], cache)
        stamp.write_text(pins)
    return cache / "venv/bin/python"


def unpacked(name, version, cache):
    """The folder of a source package."""
    folder = cache / f"{name}-{version}"
    if not folder.exists():
        run_tool(["venv/bin/pip", "download", "-q", "--no-deps", "--no-binary", name,
                  f"{name}=={version}"], cache)
        with tarfile.open(cache / f"{name}-{version}.tar.gz") as package:
            package.extractall(cache, filter="data")
    return folder


def outcomes(name, folder, python, is_ours, words, again=()):
    """What each test said; or each of those that are run again."""
    _, tests, options, settings = SUITES[name]
    if again:
        tests, words = again, [*words, "-n", "0"]
    paths = [HERE / "standin", ROOT / "python"] if is_ours else []
    environment = {**os.environ, **settings, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    done = subprocess.run([python, "-m", "pytest", *PYTEST, *options, *tests, *words], cwd=folder,
                          env=environment, text=True, timeout=SUITE_SECONDS,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    log = f"{'ours' if is_ours else 'theirs'}{'-again' if again else ''}.log"
    (folder / log).write_text(done.stdout)
    found = re.findall(r"^(PASSED|FAILED|ERROR) (\S+::.+?)(?: - .*)?$", done.stdout, re.M)
    if not found:
        sys.exit(f"{name}: no test ran:\n{done.stdout[-3000:]}")
    return {test: outcome for outcome, test in found}


def compare(name, cache, python, words):
    """Prints the outcome; whether it is as expected."""
    folder = unpacked(name, SUITES[name][0], cache)
    theirs = outcomes(name, folder, python, False, words)
    ours = outcomes(name, folder, python, True, words)
    known = {test for suite, test in known_failures() if suite == name}
    passed = {test for test, outcome in theirs.items() if outcome == "PASSED"}
    here = {test for test, outcome in ours.items() if outcome == "PASSED"}
    if failed := sorted(passed - here - known):
        found = outcomes(name, folder, python, True, words, failed)
        here |= (late := {test for test, outcome in found.items() if outcome == "PASSED"})
        print("\n".join(f"passes when run again: {test}" for test in sorted(late)))
    print(f"{name} {SUITES[name][0]}: {len(passed)} of {len(theirs)} pass with burner-redis; "
          f"{len(passed & here)} of these pass here, {len(here - passed)} more do")
    bad = [f"fails here: {test}" for test in sorted(passed - here - known)]
    bad += [f"passes, though known.txt has it: {test}" for test in sorted(known & here)]
    print("\n".join([*bad, f"see {folder}/ours.log"]) if bad else "as expected")
    return not bad


def known_failures():
    """Suite and test of lines `suite test: reason`."""
    lines = (HERE / "known.txt").read_text().splitlines()
    found = [re.fullmatch(r"(\S+) (\S+): .+", line) for line in lines
             if line and not line.startswith("#")]
    return [match.groups() for match in found]


def main():
    names = sys.argv[1:]
    words = []
    if "--" in names:
        names, words = names[:names.index("--")], names[names.index("--") + 1:]
    if wrong := set(names) - set(SUITES):
        sys.exit(f"{sys.argv[0]}: there is no suite {', '.join(wrong)}: {', '.join(SUITES)}")
    cache = CACHE / "python-suites"
    python = install(cache)
    good = [compare(name, cache, python, words) for name in names or SUITES]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
