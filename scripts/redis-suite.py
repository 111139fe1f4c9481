#!/usr/bin/env python3
"""Runs the test suite of Redis 7.0.15 (Tcl) against `stillframe serve`.

The suite comes from Debian's source package of redis, which this script fetches with apt into
target/redis-suite; no line of it is in this repository. Its `src/redis-server` is
scripts/redis-suite/redis-server, a few lines of shell that start Stillframe.

`--of 8.0.6` runs the files of Redis 8.0.6 that test what Redis 7.0 does not have, `--of valkey` the
one of Valkey 9.1.2 about fields of hashes that expire. Their sources are those of
`scripts/install-peers.sh --build`, which also makes the real servers; without such a server it does
nothing. Their lists are scripts/redis-suite/known-8.txt and known-valkey.txt.

The same files run against the real redis-server first. A test that it passes counts, whether
Stillframe fails it or never gets there. scripts/redis-suite/known.txt gives the reason for each
test that Stillframe does not pass: this script fails for any other, and reports listed ones that
pass now. A file with unexpected failures runs a second time: many tests of the suite depend on the
speed of the machine.

    scripts/redis-suite.py                          all files; needs target/release/stillframe
    scripts/redis-suite.py --server target/debug/stillframe unit/type/list unit/expire
    scripts/redis-suite.py --of 8.0.6 unit/type/hash-field-expire
    scripts/redis-suite.py --of valkey
"""

import argparse
import concurrent.futures
import fnmatch
import hashlib
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import typing
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
WRAPPER = ROOT / "scripts/redis-suite/redis-server"
VERSION = "7.0.15"
KNOWN = ROOT / "scripts/redis-suite/known.txt"
POOL = "http://deb.debian.org/debian/pool/main"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache",
                     "stillframe")
# Files of Redis 8 with tests of what the older version does not have, and of all types.
REDIS_8_FILES = """unit/acl-v2 unit/bitops unit/dump unit/expire unit/info unit/introspection
    unit/introspection-2 unit/keyspace unit/scan unit/type/hash unit/type/hash-field-expire
    unit/type/incr unit/type/list unit/type/list-2 unit/type/list-3 unit/type/set unit/type/stream
    unit/type/stream-cgroups unit/type/string unit/type/zset unit/wait""".split()


class Newer(typing.NamedTuple):
    """A suite of another server, whose programs have names that begin with `family`."""
    family: str
    version: str
    sum: str
    server: pathlib.Path
    known: pathlib.Path
    files: list[str]


NEWER = {
    "8.0.6": Newer(
        "redis", "8.0.6", "763bf3005bcbf77c1d8145016a9627e45219665f99cf5a736bc73ec70faf0c8e",
        CACHE / "redis-8-server", ROOT / "scripts/redis-suite/known-8.txt", REDIS_8_FILES),
    "valkey": Newer(
        "valkey", "9.1.2", "8e8557da7426a51b4e0fb514a65ef6241dc7c85cb408243af389070abf379cec",
        CACHE / "valkey-server", ROOT / "scripts/redis-suite/known-valkey.txt",
        ["unit/hashexpire"]),
}
# In these files the names of encodings, which are those of the older version here, do not count.
ANY_ENCODING = ("unit/type/list", "unit/type/list-2", "unit/type/list-3", "unit/type/set")
TOOLS = ("redis-cli", "redis-benchmark", "redis-check-rdb", "redis-check-aof")
# Without this many seconds of progress a file is given up, as a whole it has ten times as many.
TIMEOUT_SECONDS = 120
BASE_PORT = 21111
PORTS = 2000
# What tests do between two tests has no name.
BETWEEN = "(between tests)"
UNFINISHED = "(the file does not end)"

say_lock = threading.Lock()


def say(text):
    with say_lock:
        print(text, flush=True)


def fetch(work):
    """The suite's sources, from the mirror that this machine installs from."""
    found = sorted(work.glob(f"redis-{VERSION}"))
    if found:
        return found[0]
    lists = work / "lists"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    sources = work / "deb-src.sources"
    stanzas = pathlib.Path("/etc/apt/sources.list.d/debian.sources")
    if not stanzas.exists():
        sys.exit(f"redis-suite: {stanzas} is not there: put the source package of redis "
                 f"{VERSION} into {work} by hand, as redis-{VERSION}/")
    text = stanzas.read_text().replace("Types: deb\n", "Types: deb-src\n")
    sources.write_text(text)
    options = [f"Dir::Etc::sourcelist={sources}", "Dir::Etc::sourceparts=/dev/null",
               f"Dir::State::Lists={lists}", "APT::Sandbox::User=root"]
    apt = ["apt-get", "-qq"] + [word for option in options for word in ("-o", option)]
    subprocess.run(apt + ["update"], check=True)
    subprocess.run(apt + ["source", f"redis={VERSION}*"], cwd=work, check=False)
    found = sorted(work.glob(f"redis-{VERSION}"))
    if not found:
        subprocess.run(apt + ["source", "redis"], cwd=work, check=True)
        found = sorted(work.glob(f"redis-{VERSION}"))
    return found[0]


def fetch_newer(work, suite):
    """As `fetch`, for another suite."""
    folder = work / f"{suite.family}-{suite.version}"
    if not folder.exists():
        name = f"{suite.family}_{suite.version}.orig.tar.gz"
        source = f"{POOL}/{suite.family[0]}/{suite.family}/{name}"
        with urllib.request.urlopen(source, timeout=300) as answer:
            archive = answer.read()
        if hashlib.sha256(archive).hexdigest() != suite.sum:
            sys.exit(f"redis-suite: {source} is not what it was")
        packed = work / "newer.tar.gz"
        packed.write_bytes(archive)
        partial = work / "partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        subprocess.run(["tar", "-xf", packed, "-C", partial, "--strip-components=1"], check=True)
        partial.rename(folder)
    return folder


def plant(source, tree, server, family="redis"):
    """A directory to run the suite in, with this server."""
    shutil.rmtree(tree, ignore_errors=True)
    (tree / "src").mkdir(parents=True)
    for name in ("tests", "runtest", f"{family}.conf", "sentinel.conf", "utils"):
        part = source / name
        copy = shutil.copytree if part.is_dir() else shutil.copy
        copy(part, tree / name)
    for tool in TOOLS:
        (tree / "src" / tool.replace("redis", family)).symlink_to(shutil.which(tool))
    (tree / f"src/{family}-server").symlink_to(server)
    if server == WRAPPER and family == "redis":
        lenient(tree / "tests/support/redis.tcl")
    if server == WRAPPER and family == "valkey":
        with_names_of_redis(tree / "tests/unit/hashexpire.tcl")
    return tree


def with_names_of_redis(tests):
    """INFO here has Redis's names of two figures that Valkey calls otherwise."""
    text = tests.read_text()
    text = re.sub(r"\bexpired_fields\b(?=\])", "expired_subkeys", text)
    tests.write_text(text.replace("keys_with_volatile_items=", "subexpiry="))


def lenient(client):
    """What a file does outside of its tests with the debugger of scripts, which is not here, is
    passed over: the tests that need it fail, and not all that stand behind them."""
    text = client.read_text()
    strict = "- {return -code error [redis_read_line $fd]}"
    if strict not in text:
        return  # the newer version does as much by itself
    client.write_text(text.replace(strict, """- {
                set problem [redis_read_line $fd]
                if {$::cur_test eq {} && [string match {*no debugger for scripts*} $problem]} {
                    return {}
                }
                return -code error $problem
            }"""))


def all_files(source):
    text = (source / "tests/test_helper.tcl").read_text()
    return re.search(r"set ::all_tests \{(.*?)\}", text, re.S)[1].split()


# Process groups of the files that run.
groups = set()


def end(group):
    """Kills what runs a file, and whatever that has left behind."""
    groups.discard(group)
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def stop(*_):
    for group in list(groups):
        end(group)
    os._exit(1)


def run_file(tree, name, worker, binary, log, left_out):
    """Names of the tests of one file that were passed, and of those that failed."""
    command = ["./runtest", "--single", name, "--clients", "1", "--durable",
               "--timeout", str(TIMEOUT_SECONDS), "--portcount", str(PORTS),
               "--baseport", str(BASE_PORT + worker * (PORTS + 100))]
    # The older version does not know the flag.
    if name in ANY_ENCODING and "--ignore-encoding" in (tree / "tests/test_helper.tcl").read_text():
        command.append("--ignore-encoding")
    for test in left_out:
        command += ["--skiptest", test]
    environment = dict(os.environ, TERM="dumb", STILLFRAME=str(binary))
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=tree, env=environment, stdout=out, stderr=out,
                                   stdin=subprocess.DEVNULL, start_new_session=True)
        groups.add(process.pid)
        try:
            process.wait(10 * TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        end(process.pid)
        process.wait()
    text = log.read_text(errors="replace")
    if name == "integration/psync2":
        # The layouts of its servers are random, and so are the names of its tests.
        text = re.sub(r"\(\d+ ms\)", "(1 ms)", text)
        text = "\n".join(dict.fromkeys(re.sub(r"\d+(?! ms\))", "N", text).splitlines()))
        text += f"\ndone]: {name}" if f"done]: {name.replace('2', 'N')}" in text else ""
        text = text.replace("tests/integration/psyncN.tcl", f"tests/{name}.tcl")
    passed = re.findall(r"^\[ok\]: (.*?) \(\d+ ms\)$", text, re.M | re.S)
    failed = []
    for entry in re.findall(r"^\[err\]: (.*?)$", text.partition("\n!!! WARNING")[0], re.M):
        named, found, _ = entry.rpartition(f" in tests/{name}.tcl")
        failed.append(named if found else BETWEEN)
    if f"done]: {name}" not in text:
        failed.append(UNFINISHED)
    return passed, failed


def run(names, trees, binary, logs, left_out=None):
    """Results by file; each tree runs one file at a time. Some tests of a file may be left out."""
    logs.mkdir(parents=True, exist_ok=True)
    free = queue.SimpleQueue()
    for worker, tree in enumerate(trees):
        free.put((worker, tree))
    results = {}

    def one(name):
        worker, tree = free.get()
        try:
            log = logs / f"{name.replace('/', '.')}.log"
            results[name] = passed, failed = run_file(
                tree, name, worker, binary, log, (left_out or {}).get(name, ()))
            say(f"  {name}: {len(passed)} passed, {len(failed)} failed")
        finally:
            free.put((worker, tree))

    with concurrent.futures.ThreadPoolExecutor(len(trees)) as pool:
        list(pool.map(one, names))
    return results


def baseline(names, source, work, jobs, server, family):
    """What the real server passes, kept from run to run."""
    kept = work / "redis.txt"
    known = {}
    if kept.exists():
        for line in kept.read_text().splitlines():
            name, _, test = line.partition("\t")
            known.setdefault(name, []).append(test)
    missing = [name for name in names if name not in known]
    if missing:
        say(f"the real server runs {len(missing)} files")
        trees = [plant(source, work / f"real-{n}", server, family) for n in range(jobs)]
        for name, (passed, _) in run(missing, trees, "", work / "logs-redis").items():
            known[name] = [test.replace("\n", " ") for test in passed] or [""]
        lines = [f"{name}\t{test}\n" for name in sorted(known) for test in known[name]]
        kept.write_text("".join(lines))
    return {name: [test for test in known[name] if test] for name in names}


class Known:
    """The list of what is not passed: `file: test` under headings that give the reason.

    "apart" in a heading: its tests do not count. "-" before a line: the test is left out, as those
    behind it would not find what they need; it counts as failed all the same. "*" for the test: the
    whole file is left out. Other names may be patterns of the shell.
    """

    def __init__(self, path):
        self.reasons = {}
        self.skipped = {}
        self.left_out = {}
        reason, apart = "", False
        for line in path.read_text().splitlines():
            if line.startswith("## "):
                apart = line.startswith("## apart: ")
                reason = line[3:]
            elif line and not line.startswith("#"):
                leave_out = line.startswith("- ")
                name, _, test = line.removeprefix("- ").partition(": ")
                if leave_out:
                    self.left_out.setdefault(name, []).append(test)
                if test == "*":
                    self.skipped[name] = reason
                else:
                    self.reasons[name, test] = (reason, apart)

    def find(self, name, test):
        """Its reason, and whether it is set apart from the count."""
        for (file, pattern), reason in self.reasons.items():
            if file == name and (pattern == test or fnmatch.fnmatchcase(test, pattern)):
                return (file, pattern), reason
        return None, None


def missed(wanted, passed):
    """Tests of the one list that are not in the other; a name may come several times."""
    rest = list(passed)
    out = []
    for test in wanted:
        if test in rest:
            rest.remove(test)
        else:
            out.append(test)
    return out


def main():
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", help="such as unit/type/list; all of them if none")
    parser.add_argument("--of", choices=[VERSION, *NEWER], default=VERSION, help="whose tests")
    parser.add_argument("--server", default=ROOT / "target/release/stillframe", type=pathlib.Path)
    parser.add_argument("--work", default=ROOT / "target/redis-suite", type=pathlib.Path)
    parser.add_argument("--jobs", default=2, type=int, help="files at once")
    parser.add_argument("--once", action="store_true", help="no second run of what fails")
    arguments = parser.parse_args()
    server = arguments.server.resolve()
    for need in [*TOOLS, "redis-server", "tclsh"]:
        if not shutil.which(need):
            sys.exit(f"redis-suite: there is no {need}: "
                     "apt-get install tcl redis-server redis-tools")
    if not server.exists():
        sys.exit(f"redis-suite: there is no {server}: cargo build --release -p stillframe-cli")
    suite = NEWER.get(arguments.of)
    if suite and not suite.server.exists():
        say(f"redis-suite: there is no {suite.server}: tests of {suite.family} {suite.version} "
            "are left out")
        return
    work = arguments.work.resolve() / (arguments.of if suite else "")
    work.mkdir(parents=True, exist_ok=True)
    source = fetch_newer(work, suite) if suite else fetch(work)
    known = Known(suite.known if suite else KNOWN)
    files = suite.files if suite else all_files(source)
    names = arguments.files or [name for name in files if name not in known.skipped]
    real = suite.server if suite else shutil.which("redis-server")
    family = suite.family if suite else "redis"
    jobs = min(arguments.jobs, len(names))
    wanted = baseline(names, source, work, jobs, real, family)

    say(f"{server} runs {len(names)} files")
    trees = [plant(source, work / f"ours-{n}", WRAPPER, family) for n in range(jobs)]
    results = run(names, trees, server, work / "logs", known.left_out)

    def unexpected(name):
        passed, failed = results[name]
        tests = missed(wanted[name], passed) + [t for t in failed if t.startswith("(")]
        return [test for test in dict.fromkeys(tests) if known.find(name, test)[0] is None]

    again = [name for name in names if unexpected(name)]
    if again and not arguments.once:
        say(f"a second run of {len(again)} files")
        for name, (passed, failed) in run(
                again, trees[:1], server, work / "logs-again", known.left_out).items():
            before, _ = results[name]
            results[name] = before + missed(passed, before), failed
    report(names, wanted, results, known, unexpected)


def report(names, wanted, results, known, unexpected):
    passed, listed, apart, used = 0, 0, 0, set()
    for name in names:
        lacking = missed(wanted[name], results[name][0])
        passed += len(wanted[name]) - len(lacking)
        for test in lacking:
            line, reason = known.find(name, test)
            used.add(line)
            if reason and reason[1]:
                apart += 1
            elif reason:
                listed += 1
        used.update(known.find(name, test)[0] for test in results[name][1])
    for name, test in known.reasons:
        if name in names and (name, test) not in used:
            say(f"passes now, take it from the list: {name}: {test}")
    new = [(name, test) for name in names for test in unexpected(name)]
    for name, test in new:
        say(f"NOT PASSED: {name}: {test}")
    counted = sum(len(wanted[name]) for name in names) - apart
    say(f"passed {passed} of {counted} ({100 * passed / max(counted, 1):.2f} %), "
        f"{listed} of the others listed; {apart} more are set apart by the list")
    sys.exit(1 if new else 0)


if __name__ == "__main__":
    main()
