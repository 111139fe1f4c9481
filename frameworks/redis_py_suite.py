#!/usr/bin/env python3
"""Runs redis-py's own tests against Redis 8 or Valkey, and Stillframe: see own_tests.py.

    frameworks/redis_py_suite.py --server target/release/stillframe [PYTEST-ARGUMENT...]

The tests come from the source package of redis-py. A test that needs a cluster or a module is
skipped by the suite itself, or fails on both.
"""
import pathlib
import re
import subprocess
import sys
import tarfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent))
import own_tests  # noqa: E402
from run import run_tool  # noqa: E402

VERSION = "8.1.0"
SHARED = ["commands", "pipeline", "hash", "lock", "scripting", "pubsub", "monitor", "encoding",
          "keyspace_notifications", "himport_integration"]
FILES = ["function", *SHARED, *[f"asyncio/test_{name}" for name in SHARED]]


def install(cache):
    """A folder with the tests, and an interpreter that can run them."""
    folder = cache / f"redis-{VERSION}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        run_tool([sys.executable, "-m", "venv", "venv"], cache)
        packages = [f"redis=={VERSION}", "pytest", "pytest-asyncio", "pytest-timeout", "mock",
                    "numpy", "xxhash"]
        run_tool(["venv/bin/pip", "install", "--quiet", *packages], cache)
        run_tool(["venv/bin/pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:",
                  f"redis=={VERSION}"], cache)
        with tarfile.open(cache / f"redis-{VERSION}.tar.gz") as package:
            package.extractall(cache / "unpacked", filter="data")
        (cache / "unpacked" / folder.name).rename(folder)
    return folder, cache / "venv/bin/python"


def outcomes(tests, server, version, words):
    folder, python = tests
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:warnings", "--timeout", "120", "--tb=no", "-rA",
         "-k", "not luster", "--redis-url", f"redis://localhost:{server.port}/9",
         *[f"tests/test_{name}.py" for name in FILES], *words],
        cwd=folder, text=True, timeout=own_tests.SUITE_SECONDS, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    line = r"^(PASSED|FAILED|ERROR) (\S+::\S+(?:\[.*?\])?)(?: - (.*))?$"
    found = re.findall(line, done.stdout, re.M)
    if not found:
        sys.exit(f"no test ran:\n{done.stdout[-3000:]}")
    return {name: "" if outcome == "PASSED" else why or outcome for outcome, name, why in found}


if __name__ == "__main__":
    own_tests.main("redis-py", "pip3", install, outcomes, __doc__)
