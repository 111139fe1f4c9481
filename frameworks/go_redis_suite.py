#!/usr/bin/env python3
"""Runs go-redis's own tests of commands against Redis 8, and against Stillframe that says it is
that version.

    frameworks/go_redis_suite.py --server target/release/stillframe [GINKGO-FLAG...]

Each test that passes on Redis passes here, or stands in go_redis_known.txt with the reason; one on
that list that passes fails the run, too. The tests come from go-redis's module, compiled once.
Redis 8 is what scripts/install-peers.sh --build puts into the cache. Tests of clusters, rings,
Sentinel and modules need servers that are not started, and stay out.

    --claim 8.8    Stillframe alone, which says it is that version: the tests of what Redis 8.0 does
                   not have are judged by their own assertions
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE))
from run import CACHE, own_port, run_tool  # noqa: E402

VERSION = "v9.23.0"
MODULE = "github.com/redis/go-redis/v9"
#: What needs other servers or modules, or tests the client alone.
LEFT_OUT = ("ClusterClient|Ring|Sentinel|RediSearch|TimeSeries|JSON|Probabilistic|VectorSet|TLS|"
            "FT\\.|TS\\.|Array Commands|HIMPORT|HotKeys|Command Tips|UniversalClient|cluster|"
            "Failover")
SUITE_SECONDS = 1800


def install(cache):
    """The compiled tests, which take the port of the server from the environment."""
    binary = cache / f"tests-{VERSION}"
    if binary.exists():
        return binary
    cache.mkdir(parents=True, exist_ok=True)
    (cache / "go.mod").write_text("module stillframe.test/suite\n")
    said = subprocess.run(["go", "mod", "download", "-json", f"{MODULE}@{VERSION}"], cwd=cache,
                          capture_output=True, text=True, check=True).stdout
    sources = cache / "sources"
    shutil.rmtree(sources, ignore_errors=True)
    shutil.copytree(json.loads(said)["Dir"], sources, copy_function=shutil.copyfile)
    for folder in [sources, *sources.rglob("*/")]:
        folder.chmod(0o755)
    # The port of the server, which the tests have as a constant.
    for path in sources.glob("*_test.go"):
        text = path.read_text()
        text = text.replace('redisStackPort = "6379"',
                            'redisStackPort = os.Getenv("STILLFRAME_PORT")')
        path.write_text(text)
    run_tool(["go", "test", "-c", "-o", binary, "."], sources)
    return binary


def outcomes(line, binary, version, words):
    """What each test said of the server that `line` starts."""
    port = own_port()
    with tempfile.TemporaryDirectory() as data:
        report = pathlib.Path(data, "report.json")
        server = subprocess.Popen(
            [*line, "--port", str(port), "--dir", data, "--enable-debug-command", "yes"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            done = subprocess.run(
                [binary, "-test.run", "^TestGinkgoSuite$", "-test.timeout", f"{SUITE_SECONDS}s",
                 f"-ginkgo.json-report={report}", "-ginkgo.seed=1", f"-ginkgo.skip={LEFT_OUT}",
                 *words],
                cwd=data, text=True, timeout=SUITE_SECONDS + 60, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env={"STILLFRAME_PORT": str(port), "RE_CLUSTER": "true", "REDIS_VERSION": version,
                     "PATH": "/usr/bin:/bin", "HOME": data})
        finally:
            server.terminate()
            server.wait()
        if not report.exists():
            sys.exit(f"no test ran:\n{done.stdout[-3000:]}")
        specs = json.loads(report.read_text())[0]["SpecReports"]
    found = {}
    for spec in specs:
        name = " / ".join([*(spec["ContainerHierarchyTexts"] or []), spec["LeafNodeText"]])
        if spec["LeafNodeType"] == "It" and spec["State"] != "skipped":
            failure = spec.get("Failure", {}).get("Message", "")
            found[name] = (spec["State"], failure)
    return found


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--server", required=True, type=pathlib.Path)
    parser.add_argument("--claim", metavar="VERSION")
    parser.add_argument("--cache", type=pathlib.Path, default=CACHE / "go-redis-suite")
    options, words = parser.parse_known_args()
    redis = CACHE / "redis-8-server"
    if not redis.exists() or not shutil.which("go"):
        print("!!! SKIPPED: go-redis's own tests need go and scripts/install-peers.sh --build")
        return
    binary = install(options.cache)
    said = subprocess.run([redis, "--version"], capture_output=True, text=True, check=True).stdout
    full = re.search(r"v=(\S+)", said)[1]
    version = options.claim or full.rpartition(".")[0]
    line = [options.server.resolve(), "serve", "--save", "", "--redis-version",
            f"{version}.0" if options.claim else full]
    ours = outcomes(line, binary, version, words)
    known = {}
    for entry in (HERE / "go_redis_known.txt").read_text().splitlines():
        if entry and not entry.startswith("#"):
            name, _, reason = entry.partition(" -- ")
            known[name] = reason
    if options.claim:
        passed = set(ours)
        title = f"claiming {version}"
    else:
        theirs = outcomes([redis, "--save", ""], binary, version, words)
        passed = {name for name, (state, _) in theirs.items() if state == "passed"}
        title = f"Redis {full}"
    good = {name for name, (state, _) in ours.items() if state == "passed"}
    fails = sorted(passed - good)
    print(f"{title}: {len(passed)} pass; of these {len(passed) - len(fails)} pass here, "
          f"{len(known)} are known not to")
    new = [name for name in fails if name not in known]
    if new:
        # Many tests compare times that are left: what passes on a second run passes.
        again = outcomes(line, binary, version, words)
        new = [name for name in new if again.get(name, ("", ""))[0] != "passed"]
    works = sorted(name for name in known if name in good and not options.claim)
    for name in new:
        print(f"fails here: {name}: {ours.get(name, ('never came', ''))[1][:300]!r}")
    for name in works:
        print(f"works, though go_redis_known.txt has it: {name}")
    sys.exit(1 if new or works else 0)


if __name__ == "__main__":
    main()
