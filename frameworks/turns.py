"""Stillframe, redis-server and, where it is, valkey-server, measured in turns."""
import argparse
import pathlib
import statistics
import sys
import tempfile

import run

VALKEY = run.CACHE / "valkey-server"


def parser(description, rounds):
    """The options that all of these tools have."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--server", required=True, help="the stillframe binary")
    options.add_argument("--cache", type=pathlib.Path, default=run.CACHE / "frameworks")
    options.add_argument("--rounds", type=int, default=rounds)
    return options


def take(tool, measure, options):
    """What `measure` returned in the rounds of each server, which take turns, round by round."""
    contenders = {"stillframe": [str(pathlib.Path(options.server).resolve()), "serve"],
                  "redis-server": ["redis-server"]}
    if VALKEY.exists():
        contenders["valkey-server"] = [str(VALKEY)]
    rounds = {name: [] for name in contenders}
    names = list(contenders)
    for turn in range(options.rounds):
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            with tempfile.TemporaryDirectory(prefix=f"stillframe-{tool}-") as scratch:
                try:
                    rounds[name].append(
                        measure(name, contenders[name], options, pathlib.Path(scratch)))
                except RuntimeError as error:
                    print(f"{tool}.py: {error}", file=sys.stderr)
    return rounds


def spread(values):
    """Median, least and most."""
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def node(port, cache):
    """What a program of Node needs in its environment."""
    return {"REDIS_URL": f"redis://127.0.0.1:{port}/0",
            "NODE_PATH": str(cache / "node/node_modules")}
