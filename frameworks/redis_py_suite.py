#!/usr/bin/env python3
"""Runs redis-py's own tests against Redis 8, and against Stillframe that says it is that version.

    frameworks/redis_py_suite.py --server target/release/stillframe [PYTEST-ARGUMENT...]

Each test that passes on Redis passes here, or stands in redis_py_known.txt with the reason; one on
that list that passes fails the run, too. The tests come from the source package of redis-py. Redis
8 is what scripts/install-peers.sh --build puts into the cache. A test that needs a cluster or a
module is skipped by the suite itself, or fails on both.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE))
from run import CACHE, own_port, run_tool  # noqa: E402

VERSION = "8.1.0"
FILES = ["commands", "pipeline", "hash", "function", "lock", "scripting", "pubsub", "monitor",
         "encoding"]
SUITE_SECONDS = 1800


def install(cache):
    """A folder with the tests, and an interpreter that can run them."""
    folder = cache / f"redis-{VERSION}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        run_tool([sys.executable, "-m", "venv", "venv"], cache)
        packages = [f"redis=={VERSION}", "pytest", "pytest-asyncio", "pytest-timeout", "mock",
                    "numpy"]
        run_tool(["venv/bin/pip", "install", "--quiet", *packages], cache)
        run_tool(["venv/bin/pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:",
                  f"redis=={VERSION}"], cache)
        with tarfile.open(cache / f"redis-{VERSION}.tar.gz") as package:
            package.extractall(cache / "unpacked", filter="data")
        (cache / "unpacked" / folder.name).rename(folder)
    return folder, cache / "venv/bin/python"


def outcomes(line, folder, python, words):
    """What each test said of the server that `line` starts, and that server's version."""
    port = own_port()
    with tempfile.TemporaryDirectory() as data:
        server = subprocess.Popen([*line, "--port", str(port), "--dir", data],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            done = subprocess.run(
                [python, "-m", "pytest", "-q", "-p", "no:warnings", "--timeout", "120", "--tb=no",
                 "-rA", "-k", "not luster", "--redis-url", f"redis://localhost:{port}/9",
                 *[f"tests/test_{name}.py" for name in FILES], *words],
                cwd=folder, text=True, timeout=SUITE_SECONDS, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        finally:
            server.terminate()
            server.wait()
    found = re.findall(r"^(PASSED|FAILED|ERROR) (\S+::\S+(?:\[.*?\])?)(?: - |$)", done.stdout, re.M)
    if not found:
        sys.exit(f"no test ran:\n{done.stdout[-3000:]}")
    return {name: outcome for outcome, name in found}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--server", required=True, type=pathlib.Path)
    parser.add_argument("--cache", type=pathlib.Path, default=CACHE / "redis-py-suite")
    options, words = parser.parse_known_args()
    redis = CACHE / "redis-8-server"
    if not redis.exists() or not shutil.which("pip3"):
        print("!!! SKIPPED: redis-py's own tests need pip and scripts/install-peers.sh --build")
        return
    folder, python = install(options.cache)
    said = subprocess.run([redis, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"v=(\S+)", said)[1]
    theirs = outcomes([redis, "--save", ""], folder, python, words)
    ours = outcomes([options.server.resolve(), "serve", "--save", "", "--redis-version", version],
                    folder, python, words)
    known = [line.split(" ")[0]
             for line in (HERE / "redis_py_known.txt").read_text().splitlines()
             if line and not line.startswith("#")]
    passed = {name for name, outcome in theirs.items() if outcome == "PASSED"}
    fails = sorted(name for name in passed if ours.get(name) != "PASSED")
    works = sorted(name for name in known if ours.get(name) == "PASSED")
    print(f"Redis {version}: {len(passed)} pass; of these {len(passed) - len(fails)} pass here, "
          f"{len(known)} are known not to")
    new = [name for name in fails if name not in known]
    for title, names in (("fails here", new), ("works, though redis_py_known.txt has it", works)):
        for name in names:
            print(f"{title}: {name}")
    sys.exit(1 if new or works else 0)


if __name__ == "__main__":
    main()
