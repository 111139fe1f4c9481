//! Scripts that use no data give the replies of redis-server, byte for byte.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use stillframe_peers::{Peer, Random, are_here, rounds};
use stillframe_resp::{Out, Protocol, decode_reply};
use stillframe_script::{
    Call, Engine, Host, Level, Limits, NotACommand, Propagation, RedisVersion, Verdict,
};

/// That of the redis-server beside.
const VERSION: RedisVersion = RedisVersion { major: 7, minor: 0, patch: 15 };
/// Scripts, one a paragraph.
const SCRIPTS: &str = include_str!("scripts.txt");

/// A host that knows ECHO alone.
struct Echo;

impl Host for Echo {
    fn call(&mut self, args: &[&[u8]], protocol: Protocol, reply: &mut Vec<u8>) {
        let mut out = Out::new(reply, protocol);
        match args {
            [b"echo", text] => out.bulk(text),
            [b"echo", ..] => {
                out.error("ERR Wrong number of args calling Redis command from script")
            }
            _ => out.error("ERR Unknown Redis command called from script"),
        }
    }

    fn may_run(&mut self, args: &[&[u8]]) -> Result<bool, NotACommand> {
        if args[0] == b"echo" { Ok(true) } else { Err(NotACommand) }
    }

    fn log(&mut self, _: Level, _: &[u8]) {}

    fn propagate(&mut self, _: Propagation) -> Result<(), &'static str> {
        Ok(())
    }

    fn replies_error(&mut self, _: &[u8], _: bool) {}

    fn clock(&mut self) -> Duration {
        Duration::from_millis(1500)
    }

    fn pause(&mut self) -> Verdict {
        Verdict::GoOn
    }
}

fn ours(engine: &mut Engine, source: &[u8], keys: &[&[u8]], args: &[&[u8]]) -> Vec<u8> {
    let mut buffer = Vec::new();
    let mut out = Out::new(&mut buffer, Protocol::Resp2);
    match engine.load(source) {
        Err(error) => out.error(format!("ERR {error}")),
        Ok(sha) => {
            let start = out.position();
            if let Err(error) = engine.run(Call { sha, keys, args }, &mut Echo, &mut out) {
                out.buffer.truncate(start);
                out.error(error.text);
            }
        }
    }
    buffer
}

struct Redis {
    child: Child,
    stream: UnixStream,
    _directory: tempfile::TempDir,
}

impl Redis {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a folder");
        let socket = directory.path().join("socket");
        let child = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--dir"])
            .arg(directory.path())
            .arg("--unixsocket")
            .arg(&socket)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server starts");
        let begun = Instant::now();
        let stream = loop {
            match UnixStream::connect(&socket) {
                Ok(stream) => break stream,
                Err(error) if begun.elapsed() > Duration::from_secs(60) => panic!("{error}"),
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        };
        Self { child, stream, _directory: directory }
    }

    fn ask(&mut self, request: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        stillframe_peers::reply::encode(request, &mut bytes);
        self.stream.write_all(&bytes).expect("redis-server reads");
        let mut reply = Vec::new();
        let mut piece = [0; 4096];
        loop {
            let length = self.stream.read(&mut piece).expect("redis-server replies");
            assert!(length > 0, "redis-server went away");
            reply.extend_from_slice(&piece[..length]);
            if matches!(decode_reply(&reply), Ok(Some(_))) {
                return reply;
            }
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn scripts_without_data_reply_as_redis_server_does() {
    if !are_here("scripts_without_data_reply_as_redis_server_does", &[Peer::RedisServer]) {
        return;
    }
    // An unoptimized build uses much stack for each level of a nested value.
    let compared = thread::Builder::new().stack_size(64 << 20).spawn(compare).expect("a thread");
    assert_eq!(compared.join().expect("no panic"), 0, "differences");
}

/// How many scripts reply otherwise than in redis-server.
fn compare() -> usize {
    let mut redis = Redis::start();
    let limits = Limits { memory_bytes: 256 << 20, instructions: 0 };
    let mut engine = Engine::new(limits, VERSION).expect("an interpreter");
    let mut differences = 0;
    for script in SCRIPTS.split("\n\n").map(str::trim_end).filter(|script| !script.is_empty()) {
        let theirs =
            redis.ask(&[b"EVAL", script.as_bytes(), b"2", b"key1", b"key2", b"arg1", b"7"]);
        let ours = ours(&mut engine, script.as_bytes(), &[b"key1", b"key2"], &[b"arg1", b"7"]);
        if ours != theirs {
            differences += 1;
            println!(
                "{script}\n  ours   {}\n  theirs {}",
                ours.escape_ascii(),
                theirs.escape_ascii()
            );
        }
    }
    differences
}

#[test]
fn random_scripts_reply_as_redis_server_does() {
    let name = "random_scripts_reply_as_redis_server_does";
    if !are_here(name, &[Peer::RedisServer]) {
        return;
    }
    let mut random = Random::new(name);
    let mut redis = Redis::start();
    let limits = Limits { memory_bytes: 256 << 20, instructions: 0 };
    let mut engine = Engine::new(limits, VERSION).expect("an interpreter");
    let mut differences = 0;
    for _ in 0..rounds(3_000, 50_000) {
        let script = script(&mut random);
        let theirs = redis.ask(&[b"EVAL", script.as_bytes(), b"0"]);
        let ours = ours(&mut engine, script.as_bytes(), &[], &[]);
        if ours != theirs {
            differences += 1;
            let (ours, theirs) = (ours.escape_ascii(), theirs.escape_ascii());
            println!("{script}\n  ours   {ours}\n  theirs {theirs}");
        }
    }
    assert_eq!(differences, 0, "differences");
}

/// A script of one call of a library, or that returns a value. It shows errors, too.
fn script(random: &mut Random) -> String {
    const SHOW: &str = "local function show(...) local t = {} for i = 1, select('#', ...) do \
                        local v = select(i, ...) if type(v) == 'table' then local ok, text = \
                        pcall(cjson.encode, v) v = text end t[i] = type(v) .. ':' .. \
                        tostring(v) end return t end ";
    let call = match random.below(16) {
        0 | 1 => format!("cjson.encode, {}", value(random, 4)),
        2 | 3 => format!("cjson.decode, {}", text(&json(random, 4))),
        4 => format!("cmsgpack.pack, {}, {}", value(random, 4), value(random, 2)),
        5 => format!("cmsgpack.unpack, cmsgpack.pack({})", value(random, 4)),
        6 => {
            let length = random.below(12);
            format!("cmsgpack.unpack, {}", text(&random.bytes(length)))
        }
        7 => format!("struct.pack, {}, {}, {}", layout(random), number(random), value(random, 0)),
        8 => {
            let length = random.below(40);
            format!("struct.unpack, {}, {}", layout(random), text(&random.bytes(length)))
        }
        9 => {
            let name = random.pick(&[
                "tobit", "bnot", "band", "bor", "bxor", "lshift", "rshift", "arshift", "rol",
                "ror", "bswap", "tohex",
            ]);
            format!("bit.{name}, {}, {}", number(random), value(random, 0))
        }
        10 => return format!("return {}", value(random, 3)),
        11 => {
            format!("string.format, {}, {}, {}", format(random), value(random, 0), number(random))
        }
        12 => {
            let name = random.pick(&["find", "match", "gsub"]);
            let subject = random.pick(&["''", "'abc(d)e'", "'[12] a1%'", "'aaa\\0bbb'"]);
            let to = random.pick(&["'<%0%1>'", "'%9'", "{a = 1}", "string.upper", "7"]);
            format!("string.{name}, {subject}, {}, {to}", pattern(random))
        }
        13 => {
            let name = random.pick(&["floor", "fmod", "frexp", "ldexp", "max", "modf", "sqrt"]);
            format!("math.{name}, {}, {}", number(random), value(random, 0))
        }
        14 => odd_call(random),
        _ => match random.below(3) {
            0 => format!("tostring, {}", number(random)),
            1 => format!("redis.error_reply, {}", value(random, 0)),
            _ => format!("tonumber, {}", value(random, 0)),
        },
    };
    format!("{SHOW} return show(pcall({call}))")
}

/// A call that is unusual, or refused.
fn odd_call(random: &mut Random) -> String {
    let (name, arguments) = random.pick(&[
        ("redis.setresp", "3"),
        ("redis.setresp", "4"),
        ("redis.setresp", "'2'"),
        ("redis.sha1hex", "'abc'"),
        ("redis.sha1hex", ""),
        ("redis.status_reply", "'FINE', 1"),
        ("redis.replicate_commands", ""),
        ("redis.log", "9, 'x'"),
        ("redis.call", ""),
        ("redis.call", "{}"),
        ("redis.call", "'echo'"),
        ("redis.call", "'echo', 1.5"),
        ("redis.pcall", "'echo'"),
        ("redis.pcall", "'nosuch', 1"),
        ("table.concat", "{1, 'a', 2.5}, ',', 1, 3"),
        ("table.concat", "{1, {}, 3}"),
        ("table.sort", "{3, 'a', 1}"),
        ("unpack", "{1, nil, 3}, 1, 3"),
        ("select", "-1, 1, 2"),
        ("select", "0, 1"),
        ("loadstring", "'return 1 +'"),
        ("setfenv", "1, {}"),
        ("rawset", "_G, 'x', 1"),
        ("setmetatable", "redis, {}"),
    ]);
    let comma = if arguments.is_empty() { "" } else { "," };
    format!("{name}{comma} {arguments}")
}

/// A format of string.format, wrong now and then.
fn format(random: &mut Random) -> String {
    let parts = (0..1 + random.below(3)).map(|_| {
        let flag = random.pick(&["", "", "-", "+", "0", "#", " ", "-+ #0"]);
        let width = random.pick(&["", "", "5", "12", "99", "100"]);
        let precision = random.pick(&["", "", ".0", ".3", ".17", ".100"]);
        let kind = random.pick(&["d", "i", "u", "x", "X", "o", "e", "g", "f", "s", "q", "c", "y"]);
        format!("%{flag}{width}{precision}{kind}")
    });
    text(parts.collect::<Vec<_>>().join(random.pick(&["", "%%", "a"])).as_bytes())
}

/// A pattern of Lua, wrong now and then.
fn pattern(random: &mut Random) -> String {
    const PIECES: &[&str] = &[
        "a", "%a", "%d", ".", "%", "[abc]", "[^1]", "[", "(", ")", "()", "%1", "%b()", "%f[%a]",
        "^", "$", "%s", "%W",
    ];
    let pieces = (0..1 + random.below(4)).map(|_| {
        let piece = random.pick(PIECES);
        format!("{piece}{}", random.pick(&["", "", "*", "+", "-", "?"]))
    });
    text(pieces.collect::<String>().as_bytes())
}

fn number(random: &mut Random) -> String {
    const EDGES: &[&str] = &[
        "0",
        "-0",
        "1",
        "-1",
        "0.5",
        "-1.5",
        "127",
        "128",
        "255",
        "256",
        "-32",
        "-33",
        "-129",
        "65535",
        "65536",
        "-32769",
        "2^31",
        "2^31 - 1",
        "-2^31",
        "2^32",
        "2^32 + 1",
        "2^53",
        "1e13",
        "99999999999999",
        "1e14",
        "123456789012345",
        "1e15",
        "1e100",
        "0.1",
        "1/3",
        "-1e-7",
        "5e-324",
    ];
    match random.below(3) {
        0 => format!("{}", random.next() as i32),
        1 => format!("{} / {}", random.next() as i32, 1 + random.below(1000)),
        _ => random.pick(EDGES).to_owned(),
    }
}

/// Bytes as a literal of Lua.
fn text(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("\\{byte:03}"));
    format!("'{}'", digits.collect::<String>())
}

fn value(random: &mut Random, depth: usize) -> String {
    match random.below(if depth > 0 { 9 } else { 6 }) {
        0 | 1 => number(random),
        2 | 3 => {
            let length = random.below(40);
            text(&random.bytes(length))
        }
        4 => random.pick(&["true", "false", "nil", "''", "'7'", "' 0x10 '"]).to_owned(),
        5 => random.pick(&["cjson.null", "{}", "'abc'", "'/\\\\\"'"]).to_owned(),
        6 | 7 => {
            let items = (0..random.below(20)).map(|_| value(random, depth - 1));
            format!("{{{}}}", items.collect::<Vec<_>>().join(", "))
        }
        _ => {
            let fields = (0..random.below(6)).map(|_| {
                let key = match random.below(4) {
                    0 => format!("{}", random.below(15)),
                    1 => number(random),
                    2 => "'7'".to_owned(),
                    _ => format!("'k{}'", random.below(9)),
                };
                format!("[{key}] = {}", value(random, depth - 1))
            });
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
    }
}

/// A text of JSON, damaged now and then.
fn json(random: &mut Random, depth: usize) -> Vec<u8> {
    const SCALARS: &[&str] = &[
        "null",
        "true",
        "false",
        "0",
        "-0",
        "12",
        "-1.5e3",
        "1E-2",
        "1.",
        ".5",
        "0x1F",
        "nan",
        "Infinity",
        "1e400",
        "\"\"",
        "\"a\\n\\u00e9\"",
        "\"\\ud83d\\ude00\"",
        "\"\\ud83d\"",
        "\"\\q\"",
        "\"\\u0000x\"",
        "tru",
        "\"x",
    ];
    let mut bytes = match random.below(if depth > 0 { 4 } else { 2 }) {
        0 | 1 => random.pick(SCALARS).as_bytes().to_vec(),
        2 => {
            let items: Vec<_> = (0..random.below(5)).map(|_| json(random, depth - 1)).collect();
            [b"[", &items.join(&b", "[..])[..], b"]"].concat()
        }
        _ => {
            let fields = (0..random.below(5)).map(|_| {
                let key = format!("\"k{}\" : ", random.below(9));
                [key.into_bytes(), json(random, depth - 1)].concat()
            });
            [b"{", &fields.collect::<Vec<_>>().join(&b","[..])[..], b"}"].concat()
        }
    };
    if random.below(20) == 0 && !bytes.is_empty() {
        let at = random.below(bytes.len());
        match random.below(3) {
            0 => bytes.truncate(at),
            1 => bytes[at] = random.pick(b"[]{}:,\"\\\0 1e"),
            _ => bytes.insert(at, random.pick(b"[]{}:,\"\\\0 1e")),
        }
    }
    bytes
}

/// A format of `struct`.
fn layout(random: &mut Random) -> String {
    const ITEMS: &[&str] = &[
        "b", "B", "h", "H", "i", "I", "i1", "i3", "I5", "i8", "I8", "l", "L", "T", "f", "d", "x",
        "s", "c0", "c1", "c3", ">", "<", "!", "!2", "!4", " ", "i33", "y", "I2",
    ];
    let items: String = (0..1 + random.below(4)).map(|_| random.pick(ITEMS)).collect();
    format!("'{items}'")
}
