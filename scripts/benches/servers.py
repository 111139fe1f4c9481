"""The servers that are compared, a client for both, and what all parts share."""

import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from ports import own_port

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Rivals by their programs; scripts/install-peers.sh puts them there, the third with --build.
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
RIVALS = {"redis": "redis-server", "valkey": str(CACHE / "stillframe/valkey-server"),
          "redis-8": str(CACHE / "stillframe/redis-8-server")}
CONTENDERS = ("imprint", "fork", "naive", *RIVALS)


def title(name):
    if name in RIVALS:
        return "redis-server 8" if name == "redis-8" else f"{name}-server"
    return "null server" if name == "null" else f"stillframe ({name})"


def dialect(name):
    """The rival that reads what a server writes."""
    return name if name in RIVALS else "redis"


def say(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


class Client:
    """A blocking connection; `call` takes words, replies come as bytes, int, None or list."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb", 1 << 16)

    def call(self, *words):
        self.socket.sendall(encode(*words))
        return self.reply()

    def reply(self):
        line = self.file.readline()
        if not line:
            raise SystemExit("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise SystemExit(f"the server refused: {rest.decode()}")
        if kind == b":":
            return int(rest)
        if kind == b"$":
            if int(rest) < 0:
                return None
            return self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        return rest

    def info(self, *fields, section="everything"):
        text = self.call("INFO", section).decode()
        values = dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)
        return [values[field] for field in fields]


def encode(*words):
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


class Server:
    def __init__(self, name, options, flags=(), port=None, folder=None, environment=None):
        self.name = name
        self.environment = {**os.environ, **(environment or {})}
        prefix = f"bench-{name}-"
        self.folder = folder or pathlib.Path(tempfile.mkdtemp(prefix=prefix, dir=options.dir))
        self.port = port or own_port()
        common = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.folder)]
        self.socket = self.folder / "socket"
        common += ["--save", "", "--unixsocket", str(self.socket), *flags]
        self.line = [RIVALS[name]] if name in RIVALS else [
            options.stillframe, "serve", "--snapshot", name]
        self.line += common
        self.log = open(self.folder / "log", "ab")
        self.start()

    def start(self):
        began = time.monotonic()
        self.process = subprocess.Popen(self.line, stdout=self.log, stderr=self.log,
                                        env=self.environment)
        deadline = began + 60
        while True:
            try:
                self.client = Client(self.port)
                if self.client.info("loading", section="persistence") == ["0"]:
                    self.start_s = time.monotonic() - began
                    break
            except OSError:
                pass
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise SystemExit(f"{self.name} does not start, see {self.folder}/log")
            time.sleep(0.02)

    def restart(self):
        """Kills it and starts it again, from what it has saved."""
        self.kill()
        self.start()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.kill()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def saving(self):
        """Asks for the one section that says so: all of INFO is real work for a server."""
        return self.client.info("rdb_bgsave_in_progress", section="persistence")[0] != "0"

    def saved_well(self):
        if self.client.info("rdb_last_bgsave_status")[0] != "ok":
            raise SystemExit(f"{self.name}: a save failed, see {self.folder}/log")

    def begin_usec(self):
        field = "latest_fork_usec" if self.name in RIVALS else "latest_begin_usec"
        return int(self.client.info(field)[0])

    def processor_us(self):
        """Processor time of all its threads so far."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf("SC_CLK_TCK")

    def memory(self):
        """Proportional set size in bytes of the process and all its descendants."""
        pids, total = [self.process.pid], 0
        while pids:
            pid = pids.pop()
            try:
                text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
                for task in os.listdir(f"/proc/{pid}/task"):
                    path = f"/proc/{pid}/task/{task}/children"
                    pids += map(int, pathlib.Path(path).read_text().split())
            except (OSError, ProcessLookupError):
                continue  # it ended meanwhile
            total += sum(int(line.split()[1]) for line in text.splitlines()
                         if line.startswith("Pss:")) * 1024
        return total


def key_name(number):
    """As redis-benchmark -r spells it."""
    return b"key:%012d" % number


def spread(values, form="{:,.0f}"):
    """The median, with the lowest and highest beside it."""
    shown = [form.format(value) for value in (statistics.median(values), min(values), max(values))]
    return f"{shown[0]} ({shown[1]} to {shown[2]})"


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo")
                  if line.startswith("model name")), "an unknown processor")
    versions = []
    for rival in RIVALS.values():
        if shutil.which(rival):
            said = subprocess.run([rival, "--version"], capture_output=True, text=True).stdout.split()
            # "Redis server v=7.0.15 sha=... malloc=jemalloc-5.2.1 ..."
            versions.append(" ".join(it for it in said if it[:2] == "v=" or it[:6] == "malloc"
                                     or it in ("Redis", "Valkey")))
    system = f"Linux {os.uname().release}"
    return f"{os.cpu_count()} x {model}, {system}, {', '.join(versions)}"


def in_turns(names, turn):
    return names[turn % len(names):] + names[:turn % len(names)]
