#!/usr/bin/env python3
"""Runs go-redis's own tests of commands against Redis 8 or Valkey, and Stillframe: see own_tests.py.

    frameworks/go_redis_suite.py --server target/release/stillframe [GINKGO-FLAG...]

The tests come from go-redis's module, compiled once. Tests of clusters, rings, Sentinel and modules
need servers that are not started, and stay out.
"""
import json
import pathlib
import shutil
import subprocess
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent))
import own_tests  # noqa: E402
from run import run_tool  # noqa: E402

VERSION = "v9.23.0"
MODULE = "github.com/redis/go-redis/v9"
#: What needs other servers or modules, or tests the client alone.
LEFT_OUT = ("ClusterClient|Ring|Sentinel|RediSearch|TimeSeries|JSON|Probabilistic|VectorSet|TLS|"
            "FT\\.|TS\\.|Timeseries|Command Tips|UniversalClient|"
            "cluster|Failover|Modules|set permissions for module|FT DIALECT|withConn|"
            "Credentials Provider")


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


def outcomes(binary, server, version, words):
    report = server.folder / "report.json"
    seconds = own_tests.SUITE_SECONDS
    done = subprocess.run(
        [binary, "-test.run", "^TestGinkgoSuite$", "-test.timeout", f"{seconds}s",
         f"-ginkgo.json-report={report}", "-ginkgo.seed=1", f"-ginkgo.skip={LEFT_OUT}", *words],
        cwd=server.folder, text=True, timeout=seconds + 60, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={"STILLFRAME_PORT": str(server.port), "RE_CLUSTER": "true", "PATH": "/usr/bin:/bin",
             "REDIS_VERSION": version.rpartition(".")[0], "HOME": str(server.folder)})
    if not report.exists():
        sys.exit(f"no test ran:\n{done.stdout[-3000:]}")
    found = {}
    for spec in json.loads(report.read_text())[0]["SpecReports"]:
        name = " / ".join([*(spec["ContainerHierarchyTexts"] or []), spec["LeafNodeText"]])
        if spec["LeafNodeType"] == "It" and spec["State"] != "skipped":
            why = spec.get("Failure", {}).get("Message") or spec["State"]
            found[name] = "" if spec["State"] == "passed" else why
    return found


if __name__ == "__main__":
    own_tests.main("go-redis", "go", install, outcomes, __doc__)
