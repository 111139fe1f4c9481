//! Requests of scripts and their replies, whatever the host answers.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use stillframe_resp::{Out, Protocol};
use stillframe_script::{
    Call, Engine, Host, Level, Limits, NotACommand, Propagation, RedisVersion, RunError, Verdict,
};

const VERSION: RedisVersion = RedisVersion { major: 7, minor: 0, patch: 15 };

/// A host that answers every request alike, and remembers the last one.
struct Fixed {
    answer: Vec<u8>,
    asked: Vec<Vec<u8>>,
}

impl Host for Fixed {
    fn call(&mut self, args: &[&[u8]], _: Protocol, reply: &mut Vec<u8>) {
        assert!(args[0] != b"panic", "the host panics");
        self.asked = args.iter().map(|arg| arg.to_vec()).collect();
        reply.extend_from_slice(&self.answer);
    }

    fn may_run(&mut self, _: &[&[u8]]) -> Result<bool, NotACommand> {
        Ok(true)
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

fn engine() -> Engine {
    Engine::new(Limits { memory_bytes: 16 << 20, instructions: 0 }, VERSION)
        .expect("an interpreter")
}

/// What a script replies while the host gives this answer, and the request that the host got.
fn run(engine: &mut Engine, script: &str, answer: &[u8]) -> (String, Vec<Vec<u8>>) {
    let mut host = Fixed { answer: answer.to_vec(), asked: Vec::new() };
    let sha = engine.load(script.as_bytes()).expect("a script");
    let mut reply = Vec::new();
    let mut out = Out::new(&mut reply, Protocol::Resp2);
    let call = Call { sha, keys: &[b"k"], args: &[b"a", b""] };
    let text = match engine.run(call, &mut host, &mut out) {
        Ok(()) => reply.escape_ascii().to_string(),
        Err(RunError { text, .. }) => text.escape_ascii().to_string(),
    };
    (text, host.asked)
}

#[test]
fn arguments_arrive_as_they_are() {
    let mut engine = engine();
    let cases: [(&str, &[&[u8]]); 4] = [
        (
            "redis.call('x', 1, -0.5, 3e20, 2^53)",
            &[b"x", b"1", b"-0.5", b"3e+20", b"9007199254740992"],
        ),
        ("redis.call('x', KEYS[1], ARGV[1], ARGV[2])", &[b"x", b"k", b"a", b""]),
        ("redis.pcall('\\0\\r\\n', '\\255')", &[b"\0\r\n", b"\xff"]),
        ("coroutine.wrap(function() redis.call('x', 'in') end)()", &[b"x", b"in"]),
    ];
    for (script, wanted) in cases {
        let (reply, asked) = run(&mut engine, script, b"+OK\r\n");
        assert_eq!(asked, wanted, "{script}: {reply}");
    }
    let many = "local t = {} for i = 1, 3000 do t[i] = i % 2 == 0 and i or 's' .. i end \
                redis.call('x', unpack(t))";
    let (reply, asked) = run(&mut engine, many, b"+OK\r\n");
    assert_eq!(asked.len(), 3001, "{reply}");
    assert_eq!((&asked[1][..], &asked[3000][..]), (&b"s1"[..], &b"3000"[..]));
    for wrong in ["nil", "true", "{}", "tostring", "1, {}", "unpack({}, 1, 40)"] {
        let (reply, asked) = run(&mut engine, &format!("redis.call('x', {wrong})"), b"+OK\r\n");
        assert!(asked.is_empty(), "{wrong}: {asked:?}");
        assert!(
            reply.starts_with("ERR Lua redis lib command arguments must be"),
            "{wrong}: {reply}"
        );
    }
}

/// The interpreter lends Rust some thousands of values at a time.
#[test]
fn maps_and_sets_of_any_size_are_whole() {
    const COUNT: usize = 20_000;
    let mut engine = engine();
    let mut asked = format!("%{COUNT}\r\n").into_bytes();
    for number in 10_000..10_000 + COUNT {
        asked.extend(format!("$6\r\nk{number}\r\n$1\r\nv\r\n").bytes());
    }
    let build = format!("local t = {{}} for i = 1, {COUNT} do t['k' .. i] = 'v' end");
    let scripts = [
        ("redis.setresp(3) return redis.call('x')".to_owned(), 2 * COUNT),
        (format!("{build} return {{map = t}}"), 2 * COUNT),
        (format!("{build} return {{set = t}}"), COUNT),
    ];
    for (script, length) in scripts {
        let (reply, _) = run(&mut engine, &script, &asked);
        let words: Vec<&str> = reply.split("\\r\\n").collect();
        assert_eq!(words[0], format!("*{length}"), "{script}");
        let keys: HashSet<_> = words.iter().filter(|word| word.starts_with('k')).collect();
        assert_eq!(keys.len(), COUNT, "{script}");
    }
}

/// As many arguments as a function takes leave room for a reply.
#[test]
fn requests_of_many_words_get_their_replies() {
    let mut engine = engine();
    for count in [7000, 7990, 7999] {
        let build = format!("local t = {{}} for i = 1, {count} do t[i] = 'w' end");
        let script = format!("{build} return redis.call('a', 'b', unpack(t))");
        let (reply, asked) = run(&mut engine, &script, b"*2\r\n+x\r\n*1\r\n:1\r\n");
        assert_eq!((&*reply, asked.len()), ("*2\\r\\n+x\\r\\n*1\\r\\n:1\\r\\n", count + 2));
    }
}

#[test]
fn replies_become_the_values_of_redis() {
    let mut engine = engine();
    let show = "local function show(v) if type(v) ~= 'table' then return type(v) .. ':' .. \
                tostring(v) end if v.ok then return 'ok:' .. v.ok end if v.err then return 'err:' \
                .. v.err .. tostring(v.ignore_error_stats_update) end local all = {} for i, e in \
                ipairs(v) do all[i] = show(e) end return '{' .. table.concat(all, ' ') .. '}' end \
                return show(redis.pcall('x'))";
    let show = show.replace("local function show(v)", "local show show = function(v)");
    let unreadable = "err:ERR the reply to this command cannot be read by a scriptnil";
    let cases: [(&[u8], &str); 21] = [
        (b"+OK\r\n", "ok:OK"),
        (b"+\r\n", "ok:"),
        (b"-ERR no\r\n", "err:ERR notrue"),
        (b":-12\r\n", "number:-12"),
        (b":9223372036854775807\r\n", "number:9.2233720368548e+18"),
        (b"$-1\r\n", "boolean:false"),
        (b"*-1\r\n", "boolean:false"),
        (b"$0\r\n\r\n", "string:"),
        (b"$4\r\na\r\nb\r\n", "string:a\\r\\nb"),
        (b"*0\r\n", "{}"),
        (
            b"*3\r\n:1\r\n*2\r\n$1\r\nx\r\n-no\r\n$-1\r\n",
            "{number:1 {string:x err:notrue} boolean:false}",
        ),
        // Never sent by a host that works.
        (b"", unreadable),
        (b"\r\n", unreadable),
        (b":1\n", unreadable),
        (b"$3\r\nab", unreadable),
        (b"$3\r\nabc", unreadable),
        (b"$99999999999999999999\r\nabc\r\n", unreadable),
        (b"*2\r\n:1\r\n", unreadable),
        (b"*4000000000\r\n:1\r\n", unreadable),
        (b"%1\r\n:1\r\n:1\r\n", unreadable),
        (b"plain", unreadable),
    ];
    for (answer, wanted) in cases {
        let (reply, _) = run(&mut engine, &show, answer);
        let reply = reply.split_once("\\r\\n").map_or(&*reply, |(_, text)| text);
        assert_eq!(reply.strip_suffix("\\r\\n"), Some(wanted), "{}", answer.escape_ascii());
    }
    let deep = [b"*1\r\n".repeat(100_000), b":1\r\n".to_vec()].concat();
    let (reply, _) = run(&mut engine, "return redis.call('x')", &deep);
    assert!(reply.contains("a reply nests too deep"), "{reply}");
    let (reply, _) = run(&mut engine, "redis.setresp(3) return redis.call('x')", b"_\r\n");
    assert_eq!(reply, "$-1\\r\\n");
    let (reply, _) = run(&mut engine, "redis.setresp(3) return redis.call('x')", b"-ERR no\r\n");
    assert!(reply.starts_with("ERR no script: "), "{reply}");
    let (reply, _) = run(&mut engine, "redis.setresp(3) return redis.call('x')", b"?");
    assert!(reply.starts_with("ERR the reply to this command cannot be read"), "{reply}");
}

#[test]
fn a_panic_of_the_host_reaches_its_caller_and_no_frame_of_lua() {
    let mut engine = engine();
    for script in [
        "return redis.call('panic')",
        "pcall(redis.call, 'panic') return 1",
        "coroutine.wrap(function() redis.pcall('panic') end)()",
    ] {
        let caught = catch_unwind(AssertUnwindSafe(|| run(&mut engine, script, b"+OK\r\n")));
        assert!(caught.is_err(), "{script}");
        assert_eq!(run(&mut engine, "return 7", b"").0, ":7\\r\\n", "the next one runs");
    }
}

#[test]
fn a_reply_beyond_the_limit_of_memory_ends_the_script_alone() {
    let mut engine = engine();
    let large = [format!("${}\r\n", 32 << 20).into_bytes(), vec![b'x'; 32 << 20], b"\r\n".to_vec()];
    let (reply, _) = run(&mut engine, "return redis.call('x')", &large.concat());
    assert_eq!(reply, "ERR not enough memory");
    let many = [b"*2000000\r\n".to_vec(), b"$1\r\nx\r\n".repeat(2_000_000)].concat();
    let (reply, _) = run(&mut engine, "return #redis.call('x')", &many);
    assert_eq!(reply, "ERR not enough memory");
    assert_eq!(run(&mut engine, "return redis.call('x')", b":7\r\n").0, ":7\\r\\n");
}
