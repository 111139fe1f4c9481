//! Hostile scripts: each ends with an error within its limits, and leaves nothing to the next.

use std::thread;
use std::time::Duration;

use stillframe_peers::Watchdog;
use stillframe_resp::{Out, Protocol};
use stillframe_script::{
    Call, Engine, Functions, Host, Level, Limits, NotACommand, Propagation, RedisVersion, RunError,
    Verdict,
};

const VERSION: RedisVersion = RedisVersion { major: 7, minor: 0, patch: 15 };

/// A host without commands, which stops scripts after some pauses.
struct Alone {
    pauses_left: usize,
}

impl Host for Alone {
    fn call(&mut self, _: &[&[u8]], protocol: Protocol, reply: &mut Vec<u8>) {
        Out::new(reply, protocol).error("ERR no commands here");
    }

    fn may_run(&mut self, _: &[&[u8]]) -> Result<bool, NotACommand> {
        Err(NotACommand)
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
        match self.pauses_left {
            0 => Verdict::Stop,
            _ => {
                self.pauses_left -= 1;
                Verdict::GoOn
            }
        }
    }
}

const LIMITS: Limits = Limits { memory_bytes: 16 << 20, instructions: 5_000_000 };

/// Bytes of a reply, as a client has a limit of output.
const REPLY_BYTES: usize = 16 << 20;

/// What a script replies, on a stack as large as that of a program's first thread: builds without
/// optimization need more of it.
fn run_all(scripts: &'static [&'static str], pauses_left: usize) -> Vec<Result<String, String>> {
    let run = move || {
        let mut engine = Engine::new(LIMITS, VERSION).expect("an interpreter");
        scripts.iter().map(|script| run(&mut engine, script, pauses_left)).collect()
    };
    thread::Builder::new()
        .stack_size(64 << 20)
        .spawn(run)
        .expect("a thread")
        .join()
        .expect("no panic")
}

fn run(engine: &mut Engine, script: &str, pauses_left: usize) -> Result<String, String> {
    let sha = engine.load(script.as_bytes()).map_err(|error| error.to_string())?;
    let mut reply = Vec::new();
    let mut out = Out { limit: REPLY_BYTES, ..Out::new(&mut reply, Protocol::Resp2) };
    let call = Call { sha, keys: &[], args: &[] };
    match engine.run(call, &mut Alone { pauses_left }, &mut out) {
        Ok(()) => Ok(String::from_utf8_lossy(&reply).into_owned()),
        Err(RunError { text, .. }) => Err(String::from_utf8_lossy(&text).into_owned()),
    }
}

#[test]
fn memory_has_a_limit() {
    const GREEDY: &[&str] = &[
        "local t = {} for i = 1, 1e9 do t[i] = i end",
        "local s = 'x' while true do s = s .. s end",
        "return string.rep('x', 1e9)",
        "return string.rep('x', 2^31 - 1)",
        "local s = string.rep('x', 1e6) return string.gsub(s, 'x', s)",
        "local s = string.rep('x', 1e6) local t = {} for i = 1, 1e4 do t[i] = s end return table.concat(t)",
        "local t = {} while true do t = {t, t} t[3] = coroutine.create(function() end) end",
        "local s = string.rep('[', 1e6) return cjson.decode('[' .. string.rep('1,', 4e6) .. '1]')",
        "local s = {} for i = 1, 1e6 do s[i] = 'abcdefgh' end return cjson.encode({s, s, s, s})",
        "local t = {} for i = 1, 1e5 do t[i] = i end return cmsgpack.unpack(string.rep(cmsgpack.pack(t), 100))",
        "return struct.pack(string.rep('x', 1e6) .. 'i4', 1)",
        "local f = loadstring('return ' .. string.rep('a.', 1e6) .. 'b') return f()",
        "return redis.call('echo', string.rep('x', 1e7), string.rep('y', 1e7))",
    ];
    for (script, result) in GREEDY.iter().zip(run_all(GREEDY, usize::MAX)) {
        // Some fit after all; none may exceed its limit or end the program.
        if let Err(error) = &result {
            assert!(error.starts_with("ERR"), "{script}: {error}");
        }
    }
    const AFTER: &[&str] = &[GREEDY[0], "return 1", GREEDY[1], "return 2"];
    let results = run_all(AFTER, usize::MAX);
    assert_eq!(results[0], Err("ERR not enough memory".into()));
    assert_eq!(results[1], Ok(":1\r\n".into()), "memory of the script before is free again");
    assert_eq!(results[3], Ok(":2\r\n".into()));
}

#[test]
fn instructions_have_a_limit_that_a_script_cannot_catch() {
    const ENDLESS: &[&str] = &[
        "while true do end",
        "local function f() return f() end return f()",
        "while true do pcall(function() while true do end end) end",
        "while true do pcall(pcall, function() while true do end end) end",
        "local f = coroutine.wrap(function() while true do end end) f()",
        "while true do local f = coroutine.wrap(function() while true do end end) pcall(f) end",
        "xpcall(function() while true do end end, function() while true do end end) while true do end",
        "local t = setmetatable({}, {__index = function(t, k) while true do end end}) return t.x",
        "local t = {} for i = 1, 1000 do t[i] = i end table.sort(t, function() while true do end end)",
        "return string.gsub(string.rep('x', 100), 'x', function() while true do end end)",
        "return string.match(string.rep('x', 5000), '^' .. string.rep('(.-)', 32) .. 'y')",
        "while true do pcall(string.match, string.rep('x', 5000), string.rep('.-', 9) .. 'y') end",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    ];
    let stopped = "Script used more instructions than it may.";
    for (script, result) in ENDLESS.iter().zip(run_all(ENDLESS, usize::MAX)) {
        let error = result.expect_err(script);
        assert!(error.starts_with(&format!("ERR {stopped}")), "{script}: {error}");
    }
    for (script, result) in ENDLESS.iter().zip(run_all(ENDLESS, 3)) {
        let error = result.expect_err(script);
        let killed = "ERR Script killed by user with SCRIPT KILL.";
        assert!(error.starts_with(killed), "{script}: {error}");
    }
}

/// Each instruction, or call of a function in C, takes long: what it does counts, not that it is
/// one. If only instructions counted, each of these would take minutes to hours.
const BULKY: &[&str] = &[
    "local s = string.rep('x', 5e5) while true do local t = s:sub(2) end",
    "while true do local t = string.rep('x', 5e5) end",
    "while true do local t = string.rep('xyz', 2e5) end",
    "local s = string.rep('x', 3e5) while true do local t = s:lower() end",
    "local s = string.rep('x', 3e5) while true do local t = s:upper() end",
    "local s = string.rep('x', 3e5) while true do local t = s:reverse() end",
    "local s = string.rep('x', 3e5) while true do local t = string.format('%q', s) end",
    "local s = string.rep('x', 3e5) while true do local t = string.format('%s%s', s, s) end",
    "local s = string.rep('x', 3e5) while true do local t = s .. 'y' end",
    "local s = string.rep('x', 5e5) local a, b = s .. 'a', s .. 'b' while true do local c = a < b end",
    "local s, p = string.rep('a', 5e5), string.rep('a', 2e5) .. 'b' \
     while true do s:find(p, 1, true) end",
    "local s = string.rep('(', 3e5) while true do s:find('%b()') end",
    "local s = string.rep('a', 3e5) while true do s:find(s .. '(a*)%1') end",
    "local s = string.rep('b', 3e5) local p = '[' .. string.rep('a', 3e5) .. ']' \
     while true do s:find(p) end",
    "local s = string.rep('b', 3e5) local p = '%f[' .. string.rep('a', 3e5) .. ']' \
     while true do s:find(p) end",
    "local s = string.rep('x', 1e3) while true do local t = s:gsub('x', s) end",
    "local t = {} for i = 1, 1e5 do t[i] = '' end while true do table.concat(t) end",
    "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.remove(t, 1) t[1e5] = 1 end",
    "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.insert(t, 1, 1) t[#t] = nil end",
    "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.sort(t) end",
    "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.maxn(t) end",
    "local t = {} for i = 1, 4e5 do t[i] = 1 end for i = 1, 4e5 do t[i] = nil end \
     while true do next(t) end",
    "local t = {} for i = 1, 1e4 do t[i] = {} end while true do collectgarbage() end",
    "local t = {} for i = 1, 1e4 do t[i] = {} end while true do collectgarbage('step', 1e6) end",
    "local s = string.rep(' ', 5e5) while true do tonumber(s) end",
    "local s = string.rep(' ', 5e5) .. '1' while true do local n = s + 1 end",
    "local s = string.rep('1', 5e5) while true do tonumber(s, 2) end",
    "local s = string.rep('a = 1 ', 3e5) while true do loadstring(s) end",
    "local s = string.rep('x', 5e5) while true do redis.sha1hex(s) end",
    "local s = string.rep('x', 5e5) while true do redis.pcall('echo', s) end",
];

#[test]
fn long_work_within_an_instruction_counts_as_instructions() {
    let _watchdog = Watchdog::start();
    for (script, result) in BULKY.iter().zip(run_all(BULKY, usize::MAX)) {
        let error = result.expect_err(script);
        let stopped = "ERR Script used more instructions than it may.";
        assert!(error.starts_with(stopped), "{script}: {error}");
    }
    // And SCRIPT KILL ends each in its midst.
    for (script, result) in BULKY.iter().zip(run_all(BULKY, 3)) {
        let error = result.expect_err(script);
        assert!(error.starts_with("ERR Script killed by user"), "{script}: {error}");
    }
}

#[test]
fn long_texts_are_as_in_lua() {
    const RIGHT: &[&str] = &[
        "for n = 0, 40 do for _, s in ipairs({'', 'x', 'xyz', string.rep('0123456789', 9)}) do \
         local due = {} for i = 1, n do due[i] = s end \
         if string.rep(s, n) ~= table.concat(due) then return n .. s end end end return 'right'",
        "local s = string.rep('abc', 1e6) if #s ~= 3e6 or s:sub(-4) ~= 'cabc' or s:find('cc') then \
         return 'wrong' end for i = 1, 3e6, 99991 do \
         if s:sub(i, i) ~= ('abc'):sub((i - 1) % 3 + 1, (i - 1) % 3 + 1) then return i end end \
         return 'right'",
        "local t = {'', '\\0', '\\0\\0', '\\0a', 'a', 'a\\0', 'a\\0b', 'ab', 'b', '\\200'} \
         for i = 1, #t do for j = 1, #t do \
         if (t[i] < t[j]) ~= (i < j) or (t[i] <= t[j]) ~= (i <= j) then return i .. ' ' .. j end end end return 'right'",
        "local s = string.rep('x', 1e5) .. 'needle' .. string.rep('x', 1e5) \
         local from, to = s:find('needle', 1, true) \
         if from ~= 100001 or to ~= 100006 or s:find('needles', 1, true) or s:find('') ~= 1 or \
         ('').find('', '') ~= 1 then return 'wrong' end return 'right'",
        "local s = string.rep('y', 5e4) local due = '<' .. s .. '>' \
         if string.format('<%s>', s) ~= due or table.concat({'<', s, '>'}) ~= due or \
         ('<' .. s .. '>'):upper():lower() ~= due or \
         (s:gsub('y', 'zz')) ~= string.rep('zz', 5e4) or \
         s:reverse() ~= s then return 'wrong' end return 'right'",
    ];
    for (script, result) in RIGHT.iter().zip(run_all(RIGHT, usize::MAX)) {
        assert_eq!(result, Ok("$5\r\nright\r\n".into()), "{script}");
    }
}

#[test]
fn tables_that_share_others_end_at_the_limits() {
    // Written out, each of these has 2^60 elements.
    const SHARED: &[&str] = &[
        "local t = {1} for i = 1, 60 do t = {t, t} end return #cjson.encode(t)",
        "local t = {} for i = 1, 60 do t = {a = t, b = t} end return #cjson.encode(t)",
        "local t = {1} for i = 1, 15 do local u = {} for j = 1, 16 do u[j] = t end t = u end \
         return #cmsgpack.pack(t)",
        "local t = {} for i = 1, 15 do local u = {} for j = 1, 16 do u['k' .. j] = t end t = u end \
         return #cmsgpack.pack(t)",
    ];
    const ENDS: [&str; 2] =
        ["ERR not enough memory", "ERR Script used more instructions than it may."];
    for (script, result) in SHARED.iter().zip(run_all(SHARED, usize::MAX)) {
        let error = result.expect_err(script);
        assert!(ENDS.iter().any(|end| error.starts_with(end)), "{script}: {error}");
    }
    const REPLIED: &[&str] = &[
        "local t = {1} for i = 1, 60 do t = {t, t} end return t",
        "local t = {1} for i = 1, 60 do t = {map = {a = t, b = t}} end return t",
        "local t = {1} for i = 1, 60 do t = {set = {[t] = true, [{t}] = true}} end return t",
    ];
    for (script, result) in REPLIED.iter().zip(run_all(REPLIED, usize::MAX)) {
        let length = result.expect(script).len();
        assert!(length < REPLY_BYTES + (1 << 20), "{script}: {length} bytes");
    }
}

/// Scripts after published exploits, and what else is at an edge.
const SHAPES: &[&str] = &[
    // unpack with a range that overflows (CVE-2025-46817)
    "return unpack({}, 0, 2147483647)",
    "return unpack({}, -2147483648, 2147483647)",
    "return unpack({}, 2147483647, 2147483647 + 1)",
    // metatables that all users share (CVE-2025-46818)
    "getmetatable('').__index = function() return 'evil' end",
    "getmetatable('').__gc = function() end",
    "getmetatable('').__index.len = function() return 'evil' end",
    "string.len = nil",
    "rawset(string, 'len', nil)",
    "getmetatable(_G).__index = nil",
    "debug.setmetatable(1, {})",
    // long brackets (CVE-2025-46819)
    "return [====[",
    "--[====[",
    // a collection while source is parsed (CVE-2025-49844)
    "for i = 1, 2000 do collectgarbage('step') loadstring('return ' .. i, string.rep('n', i)) end \
     collectgarbage() return loadstring('x x')",
    "local t = {} for i = 1, 100 do t[i] = loadstring('return function() return ' .. i .. ' end', \
     '@' .. i)() end collectgarbage() return t[50]()",
    // bytecode
    "return loadstring('\\27Lua\\81\\0\\1\\4\\8\\4\\8\\0')",
    "return load(function() return '\\27Lua' end)",
    "return string.dump(function() end)",
    // a pattern that recurses
    "return string.find(string.rep('a', 300000), string.rep('a?', 300000))",
    // deep nesting
    "return loadstring('return ' .. string.rep('(', 100000) .. '1' .. string.rep(')', 100000))",
    "return loadstring(string.rep('do ', 100000) .. string.rep(' end', 100000))",
    "local t = {} for i = 1, 200000 do t = {t} end return t",
    "local t = {} for i = 1, 200000 do t = {t} end return cmsgpack.pack(t)",
    "local t = {} for i = 1, 200000 do t = {t} end return cjson.encode(t)",
    "return cmsgpack.unpack(string.rep('\\145', 200000))",
    "local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x",
    "local function f() return coroutine.wrap(f)() end return f()",
    "local function f(n) return 1 + f(n + 1) end return f(1)",
    "return tostring(setmetatable({}, {__tostring = function() return {} end}))",
    // numbers at the edges
    "return struct.unpack('i4', 'abcd', 2^53)",
    "return struct.pack('!2147483647i4', 1)",
    "return struct.unpack('c2147483647', 'x')",
    "return struct.unpack('i99999999999999999999', 'x')",
    "return bit.tohex(1, -2147483648)",
    "return bit.tohex(1, 2^63)",
    "return cmsgpack.unpack_limit('\\1', 2^63, 2^63)",
    "return string.format('%99.99f', 1e308)",
    "return string.format('%d', 0/0)",
    "return table.concat({}, '', -2^31, 2^31)",
    "return string.rep('', 2^31 - 1)",
    "return ('x'):rep(-1)",
    "return string.sub('x', -2^63, 2^63)",
    "return select(-2^31, 1)",
    "return math.random(-2^31, 2^31)",
    "table.insert({}, 2^31, 1)",
    "return redis.setresp(0/0)",
    "return redis.log(0/0, 'x')",
    "return redis.set_repl(-1)",
];

#[test]
fn the_shapes_of_published_exploits_end_with_errors() {
    for result in run_all(SHAPES, usize::MAX) {
        if let Err(error) = result {
            assert!(!error.contains("panicked"), "{error}");
        }
    }
    // Whatever they tried, the libraries are as before.
    let mut scripts = SHAPES.to_vec();
    scripts.push("return {('abc'):len(), string.len('abcd'), type(redis.call), math.pi > 3 and 1}");
    let last = run_all(scripts.leak(), usize::MAX).pop().expect("a result");
    assert_eq!(last, Ok("*4\r\n:3\r\n:4\r\n$8\r\nfunction\r\n:1\r\n".into()));
}

/// Scripts are kept until SCRIPT FLUSH, as in Redis: only memory bounds their number.
#[test]
fn as_many_scripts_as_one_likes() {
    let limits = Limits { memory_bytes: 1 << 30, instructions: 0 };
    let mut engine = Engine::new(limits, VERSION).expect("an interpreter");
    for turn in 0..2 {
        for number in 0..20_000 {
            let script = format!("return '{number}'");
            let due = format!("${}\r\n{number}\r\n", number.to_string().len());
            assert_eq!(run(&mut engine, &script, 0), Ok(due), "turn {turn}");
        }
    }
    assert_eq!(engine.len(), 20_000);
}

#[test]
fn as_many_functions_as_one_likes() {
    let limits = Limits { memory_bytes: 1 << 30, instructions: 0 };
    let mut functions = Functions::new(limits, VERSION).expect("an interpreter");
    let library = |name: &str| {
        format!(
            "#!lua name={name}\nfor number = 1, 9999 do local own = number redis.register_function(\
             '{name}' .. number, function() return own end) end redis.register_function{{\
             function_name = '{name}', callback = function() return 0 end}}"
        )
    };
    let mut host = Alone { pauses_left: usize::MAX };
    for name in ["a", "b", "a", "a", "b"] {
        functions.load(library(name).as_bytes(), true, &mut host).expect("a library");
    }
    assert_eq!(functions.len(), 20_000);
    for (name, due) in [("a", 0), ("b9999", 9999), ("A7", 7)] {
        let mut reply = Vec::new();
        let mut out = Out::new(&mut reply, Protocol::Resp2);
        let called = functions.call(name, &[], &[], &mut host, &mut out);
        assert!(called.is_ok() && reply == format!(":{due}\r\n").into_bytes(), "{name}");
    }
    let before = functions.memory_bytes();
    for _ in 0..20 {
        functions.load(library("a").as_bytes(), true, &mut host).expect("a library");
    }
    assert!(functions.memory_bytes() < 3 * before, "libraries that were replaced are gone");
    assert!(functions.delete("a") && functions.delete("b") && functions.is_empty());
}
