#!/usr/bin/env python3
"""Runs real programs against redis-server and against Stillframe, and compares what they print.

    frameworks/run.py --server target/release/stillframe [NAME...]

A program is one file in the folder of its language. Its first line names the package and what the
program does with it. The program finds the server in REDIS_URL and REDIS_PORT, prints what it has
seen and ends with 0. Its outcome is the same if it ends with 0 on both servers and prints the same.

Packages have their pinned versions in requirements.txt, package.json, go.mod and pom.xml; those of
PHP, Ruby and Perl come with Debian. They are installed into a cache folder (--cache), never into
the tree. A language whose tools are missing is left out, loudly. The result is a table in Markdown.

With --tls programs reach both servers over TLS, if they connect by REDIS_URL alone and their
language takes an authority from the environment.

known.txt names the programs that Stillframe does not run, with the reason. A program beyond that
list fails the run, and so does one on the list that works.
"""
import argparse
import collections
import concurrent.futures
import hashlib
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
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "scripts"))
from ports import own_port  # noqa: E402

USER_CACHE = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
CACHE = pathlib.Path(USER_CACHE) / "stillframe"
START_SECONDS = 20
PROGRAM_SECONDS = 120
INSTALL_SECONDS = 1800

Language = collections.namedtuple("Language", "name suffix tool pins install command versions")
#: Where clients of these languages find the certificate of an authority.
TRUST = {"python": "SSL_CERT_FILE", "node": "NODE_EXTRA_CA_CERTS", "go": "SSL_CERT_FILE"}
Program = collections.namedtuple("Program", "name language path package what")
Result = collections.namedtuple("Result", "status output errors")


def run_tool(command, folder, **environment):
    """Runs a tool that installs or builds, quietly; what it printed is the error if it fails."""
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, text=True, timeout=INSTALL_SECONDS,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{done.stdout[-2000:]}")


def copy_sources(language, cache):
    for path in HERE.joinpath(language.name).iterdir():
        shutil.copy(path, cache)


def install_python(language, cache):
    run_tool([sys.executable, "-m", "venv", "."], cache)
    run_tool(["bin/pip", "install", "--quiet", "-r", HERE / "python/requirements.txt"], cache)


def install_node(language, cache):
    shutil.copy(HERE / "node/package.json", cache)
    run_tool(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock"],
             cache)


def install_go(language, cache):
    copy_sources(language, cache)
    run_tool(["go", "mod", "tidy"], cache, GOFLAGS="-mod=mod")
    run_tool(["go", "build", "-o", "programs", "."], cache, GOFLAGS="-mod=mod")


def install_java(language, cache):
    copy_sources(language, cache)
    run_tool(["mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"], cache)
    sources = [path.name for path in cache.glob("*.java")]
    run_tool(["javac", "-cp", "lib/*", "-d", "classes", *sources], cache)


def install_nothing(language, cache):
    for package in language.pins:
        if debian_version(package) is None:
            raise RuntimeError(f"this machine lacks {package}: apt-get install {package}")


def python_versions(cache):
    text = (HERE / "python/requirements.txt").read_text()
    return dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.M))


def node_versions(cache):
    text = (HERE / "node/package.json").read_text()
    return dict(re.findall(r'"([\w@/.-]+)": "([\d.]+[^"]*)"', text))


def go_versions(cache):
    found = re.findall(r"^\s+(\S+) v(\S+)", (HERE / "go/go.mod").read_text(), re.M)
    return {re.sub(r"/v\d+$", "", path).split("/", 1)[-1]: version for path, version in found}


def java_versions(cache):
    root = xml.etree.ElementTree.parse(HERE / "java/pom.xml").getroot()
    return {each.findtext("{*}artifactId"): each.findtext("{*}version")
            for each in root.iterfind(".//{*}dependency")}


def debian_version(package):
    if shutil.which("dpkg-query") is None:
        return None
    done = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", package],
                          capture_output=True, text=True)
    status, _, version = done.stdout.partition(" ")
    return version if status == "installed" else None


def debian(packages):
    return lambda cache: {package: debian_version(package) for package in packages}


PHP = ["php-cli", "php-redis", "php-predis"]
RUBY = ["ruby-sidekiq", "ruby-redis"]
PERL = ["libredis-perl"]
LANGUAGES = {language.name: language for language in [
    Language("python", ".py", "python3", ["requirements.txt"], install_python,
             lambda cache, path: [cache / "bin/python", path], python_versions),
    Language("node", ".js", "npm", ["package.json"], install_node,
             lambda cache, path: ["node", "--no-warnings", path], node_versions),
    Language("go", ".go", "go", ["go.mod", "*.go"], install_go,
             lambda cache, path: [cache / "programs", path.stem], go_versions),
    Language("java", ".java", "mvn", ["pom.xml", "*.java"], install_java,
             lambda cache, path: ["java", "-cp", f"{cache}/classes:{cache}/lib/*", path.stem],
             java_versions),
    Language("php", ".php", "php", PHP, install_nothing,
             lambda cache, path: ["php", path], debian(PHP)),
    Language("ruby", ".rb", "ruby", RUBY, install_nothing,
             lambda cache, path: ["ruby", path], debian(RUBY)),
    Language("perl", ".pl", "perl", PERL, install_nothing,
             lambda cache, path: ["perl", path], debian(PERL)),
]}


def programs(names):
    """The programs named, or all: files whose first line is `# package: What it does.`"""
    found = []
    for language in LANGUAGES.values():
        for path in sorted((HERE / language.name).glob(f"*{language.suffix}")):
            lines = path.read_text().splitlines()
            head = re.match(r"(?:#|//) (\S+): (.+)", lines[1 if lines[0] == "<?php" else 0])
            if head and (not names or path.stem in names):
                found.append(Program(path.stem, language, path, *head.groups()))
    missing = set(names) - {program.name for program in found}
    if missing:
        sys.exit(f"run.py: there is no program {', '.join(sorted(missing))} in {HERE}")
    return found


def fingerprint(language):
    """Changes when what `install` makes of this folder changes."""
    digest = hashlib.sha256()
    for pin in language.pins:
        digest.update(pin.encode())
        for path in sorted((HERE / language.name).glob(pin)):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def installed(language, folder):
    stamp = folder / language.name / "installed"
    return stamp.is_file() and stamp.read_text() == fingerprint(language)


def install(language, folder):
    """Why the language cannot be used, or nothing."""
    if installed(language, folder) and shutil.which(language.tool):
        return None
    if shutil.which(language.tool) is None:
        return f"this machine lacks {language.tool}"
    cache = folder / language.name
    shutil.rmtree(cache, ignore_errors=True)
    cache.mkdir(parents=True)
    try:
        language.install(language, cache)
    except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
        return str(error)
    (cache / "installed").write_text(fingerprint(language))
    return None


class Server:
    """A server on a free port, with a folder of its own."""

    def __init__(self, name, command, scratch, certificate=None):
        self.name = name
        self.folder = scratch / name
        self.folder.mkdir()
        self.port = own_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.certificate = certificate
        if certificate:
            tls_port = own_port()
            self.url = f"rediss://127.0.0.1:{tls_port}/0"
            command = [*command, "--tls-port", str(tls_port), "--tls-auth-clients", "no",
                       "--tls-cert-file", certificate, "--tls-ca-cert-file", certificate,
                       "--tls-key-file", certificate.with_name("key.pem")]
        log = open(self.folder / "log", "w")
        self.process = subprocess.Popen(
            [*command, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder),
             "--save", ""], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        ends = time.monotonic() + START_SECONDS
        while True:
            try:
                self.ask("PING", b"+PONG")
                break
            except OSError as error:
                if time.monotonic() > ends or self.process.poll() is not None:
                    self.stop()
                    sys.exit(f"run.py: {name} did not start, see {self.folder}/log: {error}")
                time.sleep(0.05)

    def ask(self, request, reply):
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            connection.sendall(request.encode() + b"\r\n")
            got = connection.recv(1000)
            if not got.startswith(reply):
                raise OSError(f"{self.name} answers {got!r} to {request}")
            return got

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def make_certificate(folder):
    """A certificate for this machine that is its own authority, with its key in key.pem."""
    run_tool(["openssl", "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt",
              "ec_paramgen_curve:prime256v1", "-keyout", "key.pem", "-out", "certificate.pem",
              "-days", "2", "-subj", "/CN=localhost",
              "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"], folder)
    return folder / "certificate.pem"


def takes_tls(program):
    """Celery wants a parameter in the URL that others refuse; Bull takes none over TLS."""
    by_url = program.package not in ("celery", "bull")
    by_url = by_url and "REDIS_PORT" not in program.path.read_text()
    return by_url and program.language.name in TRUST


def run_program(program, server, folder, scratch):
    """One run on an empty server, within its time; what it started ends with it."""
    for request in ("FLUSHALL", "SCRIPT FLUSH", "FUNCTION FLUSH"):
        server.ask(request, b"+OK")
    cache = folder / program.language.name
    environment = {
        **os.environ, "REDIS_URL": server.url, "REDIS_PORT": str(server.port),
        "NODE_PATH": str(cache / "node_modules"),
        "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "ignore",
    }
    if server.certificate:
        environment[TRUST[program.language.name]] = str(server.certificate)
    place = tempfile.mkdtemp(dir=scratch)
    child = subprocess.Popen(
        [str(word) for word in program.language.command(cache, program.path)], cwd=place,
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True)
    try:
        output, errors = child.communicate(timeout=PROGRAM_SECONDS)
        status = child.returncode
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        output, errors = child.communicate()
        status = f"no end within {PROGRAM_SECONDS} s"
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    return Result(status, output, errors)


def known_failures():
    """Reasons by program, of lines `program: reason`."""
    lines = (HERE / "known.txt").read_text().splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


def verdict(results, reason):
    """What the table says of both results, and whether that is what this proof asks for."""
    redis, ours = results
    if redis.status != 0:
        return "fails on redis-server, too" if ours.status != 0 else "fails on redis-server", False
    if ours.status == 0 and redis.output == ours.output:
        return ("same", True) if reason is None else ("same: remove it from known.txt", False)
    outcome = "fails" if ours.status != 0 else "differs"
    return (outcome, False) if reason is None else (f"{outcome}: {reason}", True)


def show(program, results):
    for name, result in zip(("redis-server", "stillframe"), results):
        print(f"--- {program.name} on {name}: {result.status}\n{result.output}"
              f"{result.errors[-1500:]}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", required=True, help="the stillframe binary")
    parser.add_argument("--redis-server", default="redis-server")
    parser.add_argument("--cache", type=pathlib.Path, default=CACHE / "frameworks")
    parser.add_argument("--no-install", action="store_true",
                        help="use what the cache folder has; end with 3 if a package is missing")
    parser.add_argument("--tls", action="store_true", help="over TLS; needs openssl")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    wanted = programs(arguments.names)
    if arguments.tls:
        wanted = [program for program in wanted if takes_tls(program)]
    absent = {}
    for language in {program.language.name: program.language for program in wanted}.values():
        usable = installed(language, arguments.cache) and shutil.which(language.tool)
        if arguments.no_install and not usable:
            print(f"{arguments.cache} lacks packages of {language.name}, or there is no "
                  f"{language.tool}")
            sys.exit(3)
        why = install(language, arguments.cache)
        if why:
            absent[language.name] = why
            print(f"\nSKIPPED: all programs of {language.name}: {why}\n", file=sys.stderr)
    wanted = [program for program in wanted if program.language.name not in absent]
    if shutil.which(arguments.redis_server) is None:
        sys.exit("run.py: this machine lacks redis-server; run scripts/install-peers.sh")
    with tempfile.TemporaryDirectory(prefix="stillframe-frameworks-") as scratch:
        bad = compare(wanted, arguments, pathlib.Path(scratch))
    if bad or not wanted:
        sys.exit(f"run.py: {len(bad)} of {len(wanted)} programs with an outcome that is not "
                 f"expected: {', '.join(bad)}")
    known = sorted({program.name for program in wanted} & set(known_failures()))
    print(f"\n{len(wanted)} programs, {len(wanted) - len(known)} with the same outcome")


def compare(wanted, arguments, scratch):
    """Prints the table; the names of programs whose outcome is not the same."""
    servers = []
    bad = []
    known = known_failures()
    try:
        certificate = make_certificate(scratch) if arguments.tls else None
        binary = str(pathlib.Path(arguments.server).resolve())
        for name, line in [("redis", [arguments.redis_server]), ("stillframe", [binary, "serve"])]:
            servers.append(Server(name, line, scratch, certificate))
        print("| program | version | language | what it does | outcome |\n|---|---|---|---|---|")
        with concurrent.futures.ThreadPoolExecutor(len(servers)) as pool:
            for program in wanted:
                results = list(pool.map(
                    lambda server: run_program(program, server, arguments.cache, scratch), servers))
                outcome, good = verdict(results, known.get(program.name))
                if not good:
                    bad.append(program.name)
                    show(program, results)
                versions = program.language.versions(arguments.cache)
                version = versions.get(program.package, "?")
                print(f"| {program.package} | {version} | {program.language.name} | "
                      f"{program.what} | {outcome} |", flush=True)
    finally:
        for server in servers:
            server.stop()
    return bad


if __name__ == "__main__":
    main()
