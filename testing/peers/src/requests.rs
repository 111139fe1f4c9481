//! Random requests from the one list of commands, with the corner values of each kind of argument.
//!
//! A line `try` of the list is a template of requests that redis-server answers in the same way; a
//! line `alone` is one that it does not, because of chance, the clock, or a command of ours.
//!
//! - No number is out of a double's range: after one, Redis refuses to sort by number. Commands
//!   that join texts can make one all the same.
//! - No score is -0 or becomes it: see docs/reference/compatibility.md.
//! - No id of a stream comes from the clock, and no trim is approximate, which here and in Redis
//!   removes other nodes.
//! - No DBSIZE, which counts an expired key until a request meets it.
//!
//! In a template `$k` and its kin stand for a random argument, `a,b` for both, `a|b` for one of the
//! two, `$x*` for one to three of them and now and then for hundreds, `$x*9` for fewer than 9, `?x`
//! for it or nothing.

use std::sync::OnceLock;

use crate::Random;
use crate::list::lines;

/// A request as its words.
pub type Words = Vec<Vec<u8>>;

/// The keys: all types share them, so that a command often meets a key of another type.
pub const KEYS: [&[u8]; 12] =
    [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"", b"bin\x00\xff\r\n", b"w1", b"w2", b"7"];

/// Groups of commands whose requests are drawn as often as those of the other sets.
pub type Pool = &'static [&'static str];

/// Strings.
pub const STRINGS: Pool = &["string", "hyperloglog"];
/// Sketches, which are strings.
pub const SKETCHES: Pool = &["hyperloglog"];
/// Bits of strings.
pub const BITS: Pool = &["bitmap"];
/// Lists.
pub const LISTS: Pool = &["list"];
/// Hashes.
pub const HASHES: Pool = &["hash"];
/// Sets.
pub const SETS: Pool = &["set"];
/// Sorted sets.
pub const SORTED: Pool = &["sorted-set"];
/// Sorted sets of places.
pub const GEO: Pool = &["geo"];
/// Streams.
pub const STREAMS: Pool = &["stream"];
/// Keys of any type, and their times.
pub const KEYS_OF_ANY: Pool = &["generic", "transactions", "connection", "server"];

/// All pools; keys of any type count twice.
pub const ALL: [Pool; 10] =
    [STRINGS, LISTS, HASHES, SETS, SORTED, GEO, BITS, STREAMS, KEYS_OF_ANY, KEYS_OF_ANY];

/// A request with the words of a template of any pool.
pub fn command(random: &mut Random) -> Words {
    command_of(&ALL, random)
}

/// A request with the words of a template of one of these pools.
pub fn command_of(pools: &[Pool], random: &mut Random) -> Words {
    static TEMPLATES: OnceLock<Vec<(&str, String)>> = OnceLock::new();
    let all = TEMPLATES.get_or_init(|| {
        let listed = lines("try").map(|line| (line.group, line.request(line.value)));
        listed.chain([("generic", "NOSUCH $k $v".to_owned())]).collect()
    });
    let pool = random.pick(pools);
    let templates: Vec<&str> =
        all.iter().filter(|(group, _)| pool.contains(group)).map(|(_, it)| &**it).collect();
    filled(random.pick(&templates), random)
}

/// A request that redis-server would answer in another way.
pub fn command_alone(random: &mut Random) -> Words {
    static TEMPLATES: OnceLock<Vec<String>> = OnceLock::new();
    let all =
        TEMPLATES.get_or_init(|| lines("alone").map(|line| line.request(line.value)).collect());
    filled(&all[random.below(all.len())], random)
}

/// A script that runs requests one after the other and returns their replies; no error ends it.
pub fn script(requests: &[Words]) -> Words {
    const SOURCE: &[u8] = b"local at, replies = 1, {} \
        while at <= #ARGV do \
            local count = tonumber(ARGV[at]) \
            replies[#replies + 1] = redis.pcall(unpack(ARGV, at + 1, at + count)) \
            at = at + count + 1 \
        end \
        return replies";
    let mut words: Words = [b"EVAL", SOURCE, b"0"].map(<[u8]>::to_vec).into();
    for request in requests {
        words.push(request.len().to_string().into_bytes());
        words.extend_from_slice(request);
    }
    words
}

/// The words of a template.
pub fn filled(template: &str, random: &mut Random) -> Words {
    let mut words = Words::new();
    template.split(' ').for_each(|token| expand(token, random, &mut words));
    words
}

fn expand(token: &str, random: &mut Random, words: &mut Words) {
    if let Some(rest) = token.strip_prefix('?') {
        if random.below(3) == 0 {
            expand(rest, random, words);
        }
    } else if let Some((rest, bound)) = token.rsplit_once('*').filter(|_| token.contains('$')) {
        let count = match bound.parse() {
            Ok(bound) => random.below(bound),
            Err(_) if random.below(40) == 0 => 300,
            Err(_) => 1 + random.below(3),
        };
        (0..count).for_each(|_| expand(rest, random, words));
    } else if token.contains(',') {
        token.split(',').for_each(|part| expand(part, random, words));
    } else if token.contains('|') {
        let choices: Vec<&str> = token.split('|').collect();
        expand(random.pick(&choices), random, words);
    } else if let Some(kind) = token.strip_prefix('$').filter(|kind| !kind.is_empty()) {
        words.push(argument(kind, random));
    } else {
        let lower = random.below(8) == 0;
        words.push(if lower { token.to_lowercase() } else { token.to_owned() }.into_bytes());
    }
}

fn argument(kind: &str, random: &mut Random) -> Vec<u8> {
    match kind {
        "k" => random.pick(&KEYS).to_vec(),
        "sketch" => random.pick(&["h1", "h2", "h3"]).into(),
        "v" => value(random),
        "e" => element(random),
        "i" => integer(random).into_bytes(),
        "f" => float(random).into_bytes(),
        "score" => score(random).into_bytes(),
        "end" => end(random).into_bytes(),
        "n" => (random.below(24) as i64 - 8).to_string().into_bytes(),
        "few" => random.below(5).to_string().into_bytes(),
        "bit" if random.below(2) == 0 => random.below(3000).to_string().into_bytes(),
        "bit" => random.pick(&["0", "1", "7", "8", "100", "4000", "-1", "4294967296"]).into(),
        "place" => match random.below(8) {
            0 => integer(random).into_bytes(),
            _ => (random.below(600) as i64 - 300).to_string().into_bytes(),
        },
        "width" => width(random).into_bytes(),
        "at" => match random.below(3) {
            0 => random.pick(&["0", "3", "#1", "#7", "100", "-1", "4294967296", "x"]).into(),
            _ => format!("{}{}", random.pick(&["", "", "#"]), random.below(120)).into_bytes(),
        },
        "wide" => (random.next() as i64 >> random.below(63)).to_string().into_bytes(),
        "distinct" => match random.below(4) {
            0 => {
                let length = 1 + random.below(30);
                random.bytes(length)
            }
            _ => random.below(50_000).to_string().into_bytes(),
        },
        "damage" => damaged_sketch(random),
        "by" => random.pick(&["w*", "w*->m1", "h*", "?*", "w*->"]).into(),
        "get" => random.pick(&["#", "w*", "w*->m1", "w", "*"]).into(),
        "glob" => random.pick(&["*", "?", "[a-d]", "*1*", "b*", "\\*", "[^a]", "m?"]).into(),
        "id" => format!("{}-{}", 1 + random.below(9), random.below(3)).into_bytes(),
        "ids" => random.pick(&["-", "+", "0", "5", "(3-1", "4-2", "x", "9-9"]).into(),
        "group" => random.pick(&["g1", "g1", "g2"]).into(),
        "who" => random.pick(&["one", "two"]).into(),
        "ms" => random.pick(&MILLISECONDS).into(),
        "s" => random.pick(&SECONDS).into(),
        "long" => random.pick(&["13.361389", "15.087269", "-180", "180", "0", "200", "x"]).into(),
        "lat" => random.pick(&["38.115556", "37.502669", "85", "-85.05112878", "0", "90"]).into(),
        other => panic!("no such kind of argument: {other}"),
    }
}

/// Times that are past, far, or invalid.
const MILLISECONDS: [&str; 7] =
    ["4102444800000", "4102444800001", "99999999999999", "1", "0", "-1", "9223372036854775808"];
const SECONDS: [&str; 8] = [
    "4102444800",
    "5000000000",
    "99999999999",
    "1",
    "0",
    "-1",
    "9223372036854775807",
    "9223372036854776",
];

fn value(random: &mut Random) -> Vec<u8> {
    let length = random.below(100);
    match random.below(14) {
        0 => Vec::new(),
        1 => random.bytes(length),
        2 => {
            let most = random.pick(&[100, 9_000, 9_000, 70_000]);
            vec![random.pick(&[b'x', b'x', 0, 0xff]); random.below(most)]
        }
        3..6 => integer(random).into_bytes(),
        6 | 7 => float(random).into_bytes(),
        _ => element(random),
    }
}

fn width(random: &mut Random) -> String {
    match random.below(10) {
        0 => {
            let odd = ["u64", "i65", "i0", "u", "x8", "I8", "u-1", "u08"];
            random.pick(&odd).to_owned()
        }
        1 | 2 => random.pick(&["u8", "i64", "u63", "i1", "u1"]).to_owned(),
        _ => format!("{}{}", random.pick(&["i", "u"]), 1 + random.below(63)),
    }
}

/// A string that is no sketch, or a sketch whose registers are wrong.
fn damaged_sketch(random: &mut Random) -> Vec<u8> {
    let mut value = b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80".to_vec();
    match random.below(8) {
        0 => value[4] = 2,
        1 => value[4] = 0,
        2 => value.truncate(15),
        3 => value.extend([0x7f, 0xfe]),
        4 => value.extend([0x7f, 0xff, 0x80]),
        5 => value.extend([0x7f, 0xfe, 0x80]),
        6 => value = b"12".to_vec(),
        _ => {}
    }
    value
}

/// What is a number to SORT, or nearly.
const NUMBERS: [&str; 15] = [
    "-0", "007", "+1", "1.0", " 1", "inf", "-inf", "nan", "1e5", " ", "0x1f", "-0x.8p1", "1.",
    ".5", "5e",
];

fn element(random: &mut Random) -> Vec<u8> {
    match random.below(24) {
        0 => Vec::new(),
        1 => vec![b'm'; 60 + random.below(10)],
        2 => b"bin\x00\xff\r\n".to_vec(),
        3 => integer(random).into_bytes(),
        4 => random.pick(&NUMBERS).into(),
        5..12 => random.below(40).to_string().into_bytes(),
        12..14 => random.below(1000).to_string().into_bytes(),
        _ => format!("m{}", random.below(30)).into_bytes(),
    }
}

fn integer(random: &mut Random) -> String {
    const EDGES: [i64; 14] = [
        i64::MAX,
        i64::MAX - 1,
        i64::MIN,
        i64::MIN + 1,
        i32::MAX as i64,
        i32::MIN as i64,
        1 << 32,
        32_767,
        -32_769,
        128,
        -129,
        10_000,
        4_095,
        -1,
    ];
    match random.below(8) {
        0 => random.pick(&EDGES).to_string(),
        1 => {
            let none = ["x", "", "1.5", "9223372036854775808", "-9223372036854775809", "+5", "-0"];
            random.pick(&none).to_owned()
        }
        _ => (random.below(60) as i64 - 30).to_string(),
    }
}

fn float(random: &mut Random) -> String {
    const EDGES: [&str; 16] = [
        "0.1", "-0.3", "3.0", "1e2", "1e17", "-1e-7", "inf", "-inf", "nan", "x", "", " 1", "1e308",
        "1e-300", "-0", "1.",
    ];
    if random.below(2) == 0 {
        return random.pick(&EDGES).to_owned();
    }
    format!("{}.{}", random.below(100) as i64 - 50, random.below(1000))
}

/// Scores, none of which is or becomes -0: see docs/reference/compatibility.md.
fn score(random: &mut Random) -> String {
    match random.below(10) {
        0 => random.pick(&["inf", "-inf", "+INF", "nan", "x", ""]).into(),
        1 => random.pick(&["1e17", "123456789012345678", "1e100", "9007199254740993"]).into(),
        2 => format!("{}.{}", random.below(100), random.below(1000)),
        _ => (random.below(20) as i64 - 5).to_string(),
    }
}

fn end(random: &mut Random) -> String {
    match random.below(6) {
        0 => random.pick(&["(inf", "", "(", "((1", "(-inf"]).to_owned(),
        1 => "-inf".to_owned(),
        2 => "+inf".to_owned(),
        _ => format!("{}{}", random.pick(&["", "("]), score(random)),
    }
}
