//! Scripts and libraries of functions, under limits.

use std::thread;
use std::time::Duration;

use stillframe_resp::{Out, Protocol};
use stillframe_script::{
    Call, Engine, Functions, Host, Level, Limits, NotACommand, Propagation, RedisVersion, RunError,
    Verdict,
};

const VERSION: RedisVersion = RedisVersion { major: 7, minor: 0, patch: 15 };

const LIMITS: Limits = Limits { memory_bytes: 4 << 20, instructions: 100_000 };

/// Bytes that the interpreter may have beyond its limit: it takes no notice of it where it makes
/// functions of C.
const SLACK_BYTES: usize = 64 << 10;

/// As large as the stack of a program's first thread, for builds that use much of it.
const STACK_BYTES: usize = 64 << 20;

/// Words of scripts: most random bytes are no program.
const WORDS: &[&str] = &[
    "local",
    "x",
    "=",
    "function",
    "(",
    ")",
    "{",
    "}",
    "end",
    "return",
    "while",
    "do",
    "true",
    "if",
    "then",
    "else",
    "for",
    "i",
    "1,",
    "1e9",
    "2^53",
    "-1",
    "0/0",
    "nil",
    "false",
    "..",
    "#",
    ",",
    ";",
    "[",
    "]",
    ".",
    ":",
    "'a'",
    "'raw'",
    "':1\\r\\n'",
    "'*2\\r\\n$1\\r\\na\\r\\n'",
    "'%d%s%q'",
    "'\\0'",
    "redis",
    "call",
    "pcall",
    "error",
    "error_reply",
    "status_reply",
    "setresp",
    "3",
    "2",
    "log",
    "sha1hex",
    "set_repl",
    "acl_check_cmd",
    "register_function",
    "cjson",
    "encode",
    "decode",
    "'[[1,{\"a\":2}]]'",
    "cmsgpack",
    "pack",
    "unpack",
    "unpack_limit",
    "struct",
    "'>I2i4c0s'",
    "size",
    "bit",
    "tohex",
    "lshift",
    "string",
    "rep",
    "format",
    "gsub",
    "find",
    "match",
    "'(.-)%1'",
    "table",
    "concat",
    "insert",
    "sort",
    "remove",
    "math",
    "random",
    "floor",
    "setmetatable",
    "getmetatable",
    "rawset",
    "rawget",
    "pairs",
    "next",
    "select",
    "tostring",
    "tonumber",
    "type",
    "loadstring",
    "coroutine",
    "wrap",
    "create",
    "resume",
    "yield",
    "collectgarbage",
    "xpcall",
    "_G",
    "KEYS",
    "ARGV",
    "__index",
    "__gc",
    "and",
    "or",
    "not",
    "==",
    "<",
    "+",
    "*",
    "%",
    "repeat",
    "until",
    "break",
];

/// What libraries still do once the input has run.
const PROBE: &[u8] =
    b"return {('abc'):len(), string.rep('x', 2), type(redis.call), #cjson.encode({1}), \
    bit.band(7, 3), type(rawget(_G, 'x')), getmetatable('').__index == string and 1 or 0}";
const PROBED: &[u8] = b"*7\r\n:3\r\n$2\r\nxx\r\n$8\r\nfunction\r\n:3\r\n:3\r\n$3\r\nnil\r\n:1\r\n";

/// A host that answers with what the script sends.
struct Parrot {
    pauses: u64,
}

impl Host for Parrot {
    fn call(&mut self, args: &[&[u8]], protocol: Protocol, reply: &mut Vec<u8>) {
        match args {
            [b"raw", bytes] => reply.extend_from_slice(bytes),
            [_, rest @ ..] => {
                let mut out = Out::new(reply, protocol);
                out.array(rest.len());
                rest.iter().for_each(|arg| out.bulk(arg));
            }
            [] => unreachable!("a request has a word"),
        }
    }

    fn may_run(&mut self, args: &[&[u8]]) -> Result<bool, NotACommand> {
        args.get(1).map(|_| true).ok_or(NotACommand)
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
        self.pauses += 1;
        Verdict::GoOn
    }
}

/// Runs `data` as a script, or as a library: its first byte says which, and whether the others are
/// source or words of source.
pub fn scripts(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else { return };
    let source = if kind & 1 == 0 { rest.to_vec() } else { of_words(rest) };
    let run = move || if kind & 2 == 0 { script(&source) } else { library(&source) };
    let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn(run).expect("a thread");
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

fn of_words(bytes: &[u8]) -> Vec<u8> {
    let words = bytes.iter().map(|byte| WORDS[usize::from(*byte) % WORDS.len()]);
    words.collect::<Vec<_>>().join(" ").into_bytes()
}

fn script(source: &[u8]) {
    let mut engine = Engine::new(LIMITS, VERSION).expect("an interpreter");
    let probe = engine.load(PROBE).expect("a script");
    let run = |engine: &mut Engine, sha| {
        let (mut reply, mut host) = (Vec::new(), Parrot { pauses: 0 });
        let call = Call { sha, keys: &[b"k"], args: &[b"a", b"2"] };
        let outcome = engine.run(call, &mut host, &mut Out::new(&mut reply, Protocol::Resp2));
        check(source, engine.memory_bytes(), &host, outcome.as_ref().err());
        outcome.map(|()| reply)
    };
    if let Ok(sha) = engine.load(source) {
        let _ = run(&mut engine, sha);
    }
    // What the input left behind may use up memory once: the error collects it.
    let probed = run(&mut engine, probe).or_else(|_| run(&mut engine, probe));
    assert_eq!(probed.as_deref(), Ok(PROBED), "libraries are as before");
}

fn library(source: &[u8]) {
    let mut functions = Functions::new(LIMITS, VERSION).expect("an interpreter");
    let mut host = Parrot { pauses: 0 };
    let source = [b"#!lua name=fuzzed\n", source].concat();
    let loaded = functions.load(&source, false, &mut host);
    check(&source, functions.memory_bytes(), &host, None);
    assert_eq!(loaded.is_ok(), !functions.is_empty(), "a library without functions does not load");
    let names: Vec<String> =
        functions.libraries().values().flat_map(|it| it.functions.keys().cloned()).collect();
    for name in names {
        let (mut reply, mut host) = (Vec::new(), Parrot { pauses: 0 });
        let mut out = Out::new(&mut reply, Protocol::Resp3);
        let outcome = functions.call(&name, &[b"k"], &[b"a"], &mut host, &mut out);
        check(&source, functions.memory_bytes(), &host, outcome.as_ref().err());
    }
}

/// The limits were kept, and no error tells of a panic; a script may say that word itself.
fn check(source: &[u8], memory_bytes: usize, host: &Parrot, error: Option<&RunError>) {
    assert!(memory_bytes <= LIMITS.memory_bytes + SLACK_BYTES, "{memory_bytes} bytes");
    assert!(host.pauses <= LIMITS.instructions / 100_000, "{} pauses", host.pauses);
    if let Some(error) = error {
        let text = error.text.escape_ascii().to_string();
        let says = source.windows(8).any(|word| word == b"panicked");
        assert!(says || !text.contains("panicked"), "{text}");
    }
}
