"""What redis_py_suite.py and go_redis_suite.py share: a client's own tests run on Redis 8 or Valkey,
and on Stillframe that says it is that version.

Each test that passes there passes here, or stands in the list of known failures with the reason;
one on that list that passes fails the run, too. Under --claim, where no such Redis is at hand, each
test passes or stands in the list for that version. What passes on a second run passes: many tests
compare times that are left. The servers are what scripts/install-peers.sh puts into the cache, for
Redis 8 with --build.
"""
import argparse
import pathlib
import re
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE))
from run import CACHE, Server  # noqa: E402

SUITE_SECONDS = 1800
#: The programs of judges in the cache.
JUDGES = {"redis": "redis-8-server", "redis-8.10": "redis-8.10-server", "valkey": "valkey-server"}


def known_failures(path):
    """Reasons by test, of lines `test -- reason`; a test that ends with `*` is any of that start."""
    lines = path.read_text().splitlines()
    return dict(line.split(" -- ", 1) for line in lines if line and not line.startswith("#"))


def is_of(name, known):
    return name.startswith(known[:-1]) if known.endswith("*") else name == known


def main(client, tool, install, outcomes, description):
    """`install(cache)` makes the tests; `outcomes(tests, server, version, words)` gives a message
    by test, empty for one that passes."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--server", required=True, type=pathlib.Path)
    judges = parser.add_mutually_exclusive_group()
    judges.add_argument("--judge", choices=JUDGES, default="redis")
    judges.add_argument("--claim", metavar="VERSION", help="Stillframe alone, which says it is that "
                        "version:\nthe tests of what Redis 8.0 lacks judge by their assertions")
    parser.add_argument("--cache", type=pathlib.Path, default=CACHE / f"{client}-suite")
    options, words = parser.parse_known_args()
    judge = CACHE / JUDGES[options.judge]
    if not judge.exists() or not shutil.which(tool):
        print(f"!!! SKIPPED: {client}'s own tests need {tool} and scripts/install-peers.sh --build")
        return
    tests = install(options.cache)

    def run_on(line, version=None):
        """The version that the server says, as clients read it, and the outcomes."""
        if version:
            line = [*line, "--redis-version", version]
        with tempfile.TemporaryDirectory() as scratch:
            line = [*line, "--enable-debug-command", "yes"]
            server = Server("tested", line, pathlib.Path(scratch))
            try:
                version = re.search(rb"redis_version:(\S+)", server.ask("INFO server", b"$"))[1]
                return version.decode(), outcomes(tests, server, version.decode(), words)
            finally:
                server.stop()

    line = [options.server.resolve(), "serve"]
    version, theirs = (f"{options.claim}.0", {}) if options.claim else run_on([judge])
    _, ours = run_on(line, version)
    of = options.claim or options.judge.removeprefix("redis").strip("-")
    suffix = f"_{of}" if of else ""
    known_file = HERE / f"{client.replace('-', '_')}_known{suffix}.txt"
    known = known_failures(known_file)
    passed = set(ours) if options.claim else {name for name in theirs if not theirs[name]}
    fails = sorted(name for name in passed if ours.get(name, "never came"))
    title = f"claiming {version}" if options.claim else f"{judge.name}, which says {version}"
    print(f"{title}: {len(passed)} pass; of these {len(passed) - len(fails)} pass here, "
          f"{len(fails)} fail")
    new = [name for name in fails if not any(is_of(name, each) for each in known)]
    if new:
        _, again = run_on(line, version)
        new = [name for name in new if again.get(name, "never came")]
    of_known = {each: [ours[name] for name in ours if is_of(name, each)] for each in known}
    works = sorted(each for each, results in of_known.items() if results and not any(results))
    for name in new:
        print(f"fails here: {name}: {ours.get(name, 'never came')[:300]!r}")
    for name in works:
        print(f"works, though {known_file.name} has it: {name}")
    sys.exit(1 if new or works else 0)
