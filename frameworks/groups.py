#!/usr/bin/env python3
"""Runs clients for Redis clusters against a replicated group of Stillframe, whose leader is killed.

    frameworks/groups.py --server target/release/stillframe [NAME...]

A program is a file group_* (Group*.java) in the folder of its language; its first line is
`# group package: What it does.` It finds the members in GROUP_PORTS, counts with INCR for
GROUP_SECONDS, says `counting` when it begins, and prints a line for each counter: its name, the
last value that it was told, how often it was told one, and how often in the last two seconds.

Of each program holds: it goes on at the next leader, no value comes twice, and when all is over the
group has each value that was told, the same at all members. Packages are those of run.py.
"""
import argparse
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import run

SECONDS = 12
KILL_AFTER_SECONDS = 3
BACK_AFTER_SECONDS = 3


class Group:
    """Three members, each in a folder of its own."""

    def __init__(self, binary, scratch):
        self.binary, self.scratch = binary, scratch
        ports = [run.own_port() for _ in range(6)]
        self.ports, self.raft = ports[:3], ports[3:]
        self.members = [None] * 3
        for member in range(3):
            self.start(member)

    def start(self, member):
        folder = self.scratch / str(member)
        folder.mkdir(exist_ok=True)
        peers = ",".join(f"{i + 1}=127.0.0.1:{raft}/127.0.0.1:{port}"
                         for i, (raft, port) in enumerate(zip(self.raft, self.ports)))
        command = [self.binary, "serve", "--port", self.ports[member], "--dir", folder,
                   "--raft-id", member + 1, "--raft-listen", f"127.0.0.1:{self.raft[member]}",
                   "--raft-peers", peers]
        log = open(folder / "log", "a")
        self.members[member] = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def ask(self, member, *words):
        """The first line of a reply, or the text of one with a length; None if there is none."""
        request = f"*{len(words)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
        try:
            with socket.create_connection(("127.0.0.1", self.ports[member]), timeout=10) as link:
                link.sendall(request.encode())
                reply = link.makefile("rb")
                line = reply.readline().decode().rstrip()
                return reply.read(int(line[1:])).decode() if re.match(r"\$\d", line) else line
        except OSError:
            return None

    def leader(self):
        return self.await_that("a member leads", lambda: next(
            (i for i in range(3) if "raft_serves:1" in (self.ask(i, "INFO", "raft") or "")), None))

    def await_that(self, what, condition):
        ends = time.monotonic() + 60
        while time.monotonic() < ends:
            found = condition()
            if found is not None and found is not False:
                return found
            time.sleep(0.05)
        raise RuntimeError(f"waited in vain: {what}; logs in {self.scratch}")

    def kill(self, member):
        self.members[member].kill()
        self.members[member].wait()

    def stop(self):
        for member in range(3):
            self.kill(member)


def programs(names):
    """The programs named, or all."""
    found = []
    for language in run.LANGUAGES.values():
        folder = run.HERE / language.name
        for path in sorted(folder.glob(f"[gG]roup*{language.suffix}")):
            head = re.match(r"(?:#|//) group (\S+): (.+)", path.read_text().splitlines()[0])
            if head and (not names or path.stem in names):
                found.append(run.Program(path.stem, language, path, *head.groups()))
    missing = set(names) - {program.name for program in found}
    if missing:
        sys.exit(f"groups.py: there is no program {', '.join(sorted(missing))}")
    return found


def count(program, group, cache):
    """Runs a program while the leader is killed; what is wrong, or nothing; and how long it stood."""
    folder = cache / program.language.name
    environment = {
        **os.environ, "GROUP_PORTS": ",".join(map(str, group.ports)),
        "GROUP_SECONDS": str(SECONDS), "NODE_PATH": str(folder / "node_modules"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    group.leader()
    child = subprocess.Popen(
        [str(word) for word in program.language.command(folder, program.path)], env=environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=open(group.scratch / "errors", "w"),
        text=True, start_new_session=True)
    try:
        if child.stdout.readline() != "counting\n":
            return ["it does not begin"]
        time.sleep(KILL_AFTER_SECONDS)
        leader = group.leader()
        group.kill(leader)
        time.sleep(BACK_AFTER_SECONDS)
        group.start(leader)
        output, _ = child.communicate(timeout=run.PROGRAM_SECONDS)
    except subprocess.TimeoutExpired:
        return [f"no end within {run.PROGRAM_SECONDS} s"]
    finally:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    if child.returncode != 0:
        return [f"it ends with {child.returncode}"]
    return judge(output, group)


def judge(output, group):
    wrong = []
    counters = [line.split(" ") for line in output.splitlines()]
    if len(counters) != 8:
        wrong.append(f"{len(counters)} counters of 8")
    leader = group.leader()
    for key, last, acks, late in counters:
        there = int(group.ask(leader, "GET", key) or 0)
        if int(late) == 0:
            wrong.append(f"{key}: nothing was acknowledged in the end")
        if there < int(last) or int(last) < int(acks):
            wrong.append(f"{key}: {there} is there, {last} was told, {acks} times")
    group.await_that("members are equal", lambda: len(
        {group.ask(i, "DEBUG", "DIGEST") for i in range(3)}) == 1)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", required=True, help="the stillframe binary")
    parser.add_argument("--cache", type=pathlib.Path, default=run.CACHE / "frameworks")
    parser.add_argument("--no-install", action="store_true",
                        help="use what the cache folder has; leave out what is missing")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    binary = str(pathlib.Path(arguments.server).resolve())
    bad, done = [], 0
    print("| client | version | language | what it does | outcome |\n|---|---|---|---|---|")
    for program in programs(arguments.names):
        language = program.language
        usable = run.installed(language, arguments.cache) and shutil.which(language.tool)
        why = None if usable else "its packages are not installed"
        if not usable and not arguments.no_install:
            why = run.install(language, arguments.cache)
        if why:
            print(f"\nSKIPPED: {program.name}: {why}\n", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory(prefix="stillframe-group-") as scratch:
            group = Group(binary, pathlib.Path(scratch))
            try:
                wrong = count(program, group, arguments.cache)
            finally:
                group.stop()
            if wrong:
                bad.append(program.name)
                errors = (group.scratch / "errors").read_text()
                print(f"--- {program.name}: {wrong}\n{errors[-3000:]}", file=sys.stderr)
        done += 1
        version = language.versions(arguments.cache).get(program.package, "?")
        outcome = "; ".join(wrong) or "follows, nothing is lost"
        print(f"| {program.package} | {version} | {language.name} | {program.what} | {outcome} |",
              flush=True)
    if bad:
        sys.exit(f"groups.py: {len(bad)} of {done} clients fail: {', '.join(bad)}")
    if not done:
        print("no client's packages are installed")
        sys.exit(3)


if __name__ == "__main__":
    main()
