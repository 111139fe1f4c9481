//! The clients that people have work unmodified: redis-cli, redis-benchmark, redis-py.

use crate::support::{Kind, Peer, Server, are_here, python};
use std::process::{Command, Output};

fn run(program: &str, arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } =
        Command::new(program).args(arguments).output().expect("the client starts");
    let text = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{arguments:?}: {text} {}", String::from_utf8_lossy(&stderr));
    text
}

#[test]
fn redis_cli_works() {
    if !are_here("redis_cli_works", &[Peer::RedisCli]) {
        return;
    }
    let server = Server::start(Kind::subject("imprint"));
    let port = server.port.to_string();
    let cli = |arguments: &[&str]| run("redis-cli", &[&["-p", &port], arguments].concat());
    assert_eq!(cli(&["SET", "k", "two words"]), "OK\n");
    assert_eq!(cli(&["GET", "k"]), "two words\n");
    assert_eq!(cli(&["-3", "GET", "missing"]), "\n");
    assert_eq!(cli(&["-n", "3", "SET", "there", "1"]), "OK\n");
    assert_eq!(cli(&["-n", "3", "--scan"]), "there\n");
    assert_eq!(cli(&["INCR", "k"]), "ERR value is not an integer or out of range\n\n");
    assert!(cli(&["INFO", "server"]).contains("tcp_port:"));
    assert_eq!(cli(&["BGSAVE"]), "Background saving started\n");
    let line = format!("printf 'SET %s v\\n' a b c | redis-cli -p {port} --pipe");
    assert!(run("sh", &["-c", &line]).contains("errors: 0, replies: 3"), "mass insertion");
}

#[test]
fn redis_benchmark_runs_its_string_tests() {
    if !are_here("redis_benchmark_runs_its_string_tests", &[Peer::RedisBenchmark]) {
        return;
    }
    let server = Server::start(Kind::subject("imprint"));
    let port = server.port.to_string();
    for depth in ["1", "16"] {
        let line = ["-p", &port, "-t", "ping,set,get,incr,mset", "-n", "4000", "-P", depth];
        let text = run("redis-benchmark", &[&line[..], &["-r", "1000", "--csv"]].concat());
        // A heading, then PING twice and one line for each test.
        assert_eq!(text.lines().filter(|line| line.starts_with('"')).count(), 7, "{text}");
        assert!(!text.to_lowercase().contains("error"), "{text}");
    }
    let mut client = server.client();
    assert_eq!(client.ask("GET counter:__rand_int__"), crate::support::Reply::Null);
    assert!(client.ask("DBSIZE").int() > 1000, "the benchmark's keys are there");
}

/// What applications do with redis-py: pipelines, transactions, watches, locks, RESP2.
const REDIS_PY: &str = r#"
import sys, redis
r = redis.Redis(port=int(sys.argv[1]), client_name="proof")
assert r.ping() and r.client_getname() in ("proof", b"proof")
assert r.set("k", b"\x00\xff", ex=1000) and r.get("k") == b"\x00\xff" and 0 < r.ttl("k") <= 1000
assert r.set("k", 1, nx=True) is None and r.get("missing") is None
assert r.mset({"a": 1, "b": 2.5}) and r.mget("a", "b", "c") == [b"1", b"2.5", None]
assert r.incr("a") == 2 and r.incrbyfloat("b", 0.25) == 2.75 and r.append("a", "x") == 2
with r.pipeline(transaction=True) as p:
    assert p.set("x", 1).incr("x").get("x").execute() == [True, 2, b"2"]
with r.pipeline() as p:
    p.watch("x")
    r.set("x", 10)
    p.multi()
    p.set("x", 11)
    try:
        p.execute()
        raise SystemExit("a changed watched key must abort")
    except redis.WatchError:
        pass
assert r.transaction(lambda p: (p.multi(), p.set("t", 1)), "x") == [True]
with r.pipeline(transaction=False) as p:
    for i in range(2000):
        p.set(f"many:{i}", i)
    assert all(p.execute())
assert len(list(r.scan_iter("many:*", count=100))) == 2000
with r.pipeline(transaction=False) as p:
    for i in range(2000):
        p.get(f"many:{i}")
    assert p.execute() == [str(i).encode() for i in range(2000)]
try:
    r.execute_command("SET", "k")
    raise SystemExit("a wrong command must raise")
except redis.ResponseError as error:
    assert "wrong number of arguments" in str(error)
assert r.info("persistence")["rdb_bgsave_in_progress"] in (0, 1)
assert r.info()["redis_version"].startswith("7.") and "db0" in r.info("keyspace")
assert r.config_get("maxclients")["maxclients"].isdigit() and r.dbsize() > 2000
assert any(c["name"] == "proof" for c in r.client_list())
assert r.bgsave() and r.lastsave()
other = redis.Redis(port=int(sys.argv[1]), db=7, decode_responses=True)
other.set("text", "grüße")
assert other.get("text") == "grüße" and other.randomkey() == "text" and r.get("text") is None
assert r.copy("a", "a2") and r.rename("a2", "a3") and r.delete("a3") == 1
assert r.type("a") == b"string"
assert r.expireat("a", 99999999999) and r.expiretime("a") == 99999999999 and r.persist("a")
assert r.flushall() and r.dbsize() == 0 and other.dbsize() == 0
print("fine")
"#;

#[test]
fn redis_py_works() {
    if !are_here("redis_py_works", &[Peer::RedisPy]) {
        return;
    }
    let server = Server::start(Kind::subject("imprint"));
    let text = run(&python(), &["-c", REDIS_PY, &server.port.to_string()]);
    assert_eq!(text, "fine\n");
}
