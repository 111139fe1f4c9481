#!/usr/bin/env python3
"""Runs Python programs of this folder with the server in their own process, beside redis-server.

    frameworks/in_process.py [NAME...]

No server is started, and no port is open: the program's process has a `stillframe.Server`. The
programs of IN_MEMORY use redis-py, whose connections, sync and asyncio, lead through memory. Those
of BY_SOCKET bring a client of their own, and find the server's unix socket in REDIS_URL. What each
prints is what it prints on redis-server. Left out is celery_chords, whose worker is a process. The
packages are those of run.py; the package `stillframe` is the one that `maturin develop` has built
in python/.
"""
import argparse
import gc
import os
import pathlib
import runpy
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
IN_MEMORY = ["aiocache_cached", "arq_jobs", "beaker_sessions", "celery_thread", "channels_layer",
             "django_cache_sessions", "django_redis_cache", "dogpile_region", "dramatiq_retries",
             "fastapi_cache_app", "faststream_brokers", "flask_caching_app", "flask_limiter_app",
             "flask_session_app", "huey_schedule", "kombu_queues", "limits_strategies",
             "pottery_types", "pyrate_buckets", "python_redis_lock", "redis_py_lock",
             "redlock_contended", "rq_jobs", "saq_jobs", "slowapi_app", "socketio_manager",
             "taskiq_lists", "taskiq_streams", "walrus_streams", "walrus_types"]
BY_SOCKET = ["coredis_client", "streaq_jobs"]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*")
    names = parser.parse_args().names or IN_MEMORY + BY_SOCKET
    import run  # what it needs is not there where a program runs

    cache = run.CACHE / "frameworks"
    if shutil.which("redis-server") is None:
        print("!!! SKIPPED: programs in process: redis-server is missing")
        return
    if why := run.install(run.LANGUAGES["python"], cache):
        print(f"!!! SKIPPED: programs in process: {why}")
        return
    failed = []
    with tempfile.TemporaryDirectory(prefix="stillframe-in-process-") as scratch:
        server = run.Server("redis", ["redis-server"], pathlib.Path(scratch))
        try:
            for program in run.programs(names):
                theirs = run.run_program(program, server, cache, scratch)
                ours = run_in_process(program, cache, scratch, run)
                good = theirs.status == ours.status == 0 and theirs.output == ours.output
                way = "unix socket" if program.name in BY_SOCKET else "memory"
                print(f"{program.name}: {way}: {'same' if good else 'DIFFERS'}", flush=True)
                if not good:
                    failed.append(program.name)
                    run.show(program, [theirs, ours])
        finally:
            server.stop()
    if failed:
        sys.exit(f"in_process.py: {len(failed)} of {len(names)} differ: {', '.join(failed)}")
    print(f"{len(names)} programs with a server in their process, each with the same outcome")


def run_in_process(program, cache, scratch, run):
    place = tempfile.mkdtemp(dir=scratch)
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent / "python"),
                   "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore",
                   "IN_PROCESS": "socket" if program.name in BY_SOCKET else "memory"}
    try:
        done = subprocess.run(
            [cache / "python/bin/python", __file__, program.path], cwd=place, env=environment,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=run.PROGRAM_SECONDS)
    except subprocess.TimeoutExpired as error:
        return run.Result(f"no end within {run.PROGRAM_SECONDS} s", str(error.stdout), "")
    return run.Result(done.returncode, done.stdout, done.stderr)


def run_within(path, way):
    """Runs a program in this process, with a server for it."""
    import redis
    import redis.asyncio
    import stillframe
    from stillframe import _redis_asyncio

    with stillframe.Server(tempfile.mkdtemp(dir="."), save="", unixsocket=True) as server:
        def connect(connection):
            stream = server.connect()
            stream.settimeout(connection.socket_timeout)
            return stream

        async def connect_asyncio(connection):
            connection._server = server
            await _redis_asyncio.MemoryConnection._connect(connection)

        os.environ["REDIS_URL"], os.environ["REDIS_PORT"] = "redis://127.0.0.1:1/0", "1"
        if way == "socket":
            os.environ["REDIS_URL"] = f"unix://{server.path}"
        else:
            redis.connection.Connection._connect = connect
            redis.asyncio.connection.Connection._connect = connect_asyncio
        sys.argv = [path]
        sys.path[0] = os.path.dirname(path)
        runpy.run_path(path, run_name="__main__")
        gc.collect()  # what is left of the program takes leave of a server that is there


if __name__ == "__main__":
    if "IN_PROCESS" in os.environ:
        run_within(sys.argv[1], os.environ.pop("IN_PROCESS"))
    else:
        main()
