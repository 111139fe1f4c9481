//! Random commands on every type, from templates, with the corner values of each kind of argument.
//!
//! No number is out of a double's range: after one, Redis refuses to sort by number.
//!
//! In a template `$k` and its kin stand for a random argument, `a|b` for one of the two, `a,b` for
//! both, `x*` for one to three of them and now and then for hundreds, `?x` for it or nothing.

use crate::Random;

/// A request as its words.
pub type Words = Vec<Vec<u8>>;

/// The keys: all types share them, so that a command often meets a key of another type.
pub const KEYS: [&[u8]; 12] =
    [b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"", b"bin\x00\xff\r\n", b"w1", b"w2", b"7"];

/// A command as templates have it.
pub fn command(random: &mut Random) -> Words {
    let kind = random.pick(&KINDS);
    filled(random.pick(kind), random)
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

/// The names of all commands that [`command`] gives.
pub fn names() -> impl Iterator<Item = &'static str> {
    KINDS.into_iter().flatten().flat_map(|template| names_of(template))
}

/// The names of the commands that a template gives.
pub fn names_of(template: &str) -> impl Iterator<Item = &str> {
    template.split(' ').take(1).flat_map(|names| names.split('|'))
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
    } else if let Some(rest) = token.strip_suffix('*') {
        let count = if random.below(40) == 0 { 300 } else { 1 + random.below(3) };
        (0..count).for_each(|_| expand(rest, random, words));
    } else if token.contains('|') {
        let choices: Vec<&str> = token.split('|').collect();
        expand(random.pick(&choices), random, words);
    } else if token.contains(',') {
        token.split(',').for_each(|part| expand(part, random, words));
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
        "bit" => random.pick(&["0", "1", "7", "8", "100", "4000", "-1", "4294967296"]).into(),
        "width" => random.pick(&["u8", "i5", "u1", "i64", "u63", "u64", "i0", "i16"]).into(),
        "at" => random.pick(&["0", "3", "#1", "#7", "100", "-1", "4294967296"]).into(),
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
        2 => vec![b'x'; random.below(9_000)],
        3..6 => integer(random).into_bytes(),
        6 | 7 => float(random).into_bytes(),
        _ => element(random),
    }
}

fn element(random: &mut Random) -> Vec<u8> {
    match random.below(24) {
        0 => Vec::new(),
        1 => vec![b'm'; 60 + random.below(10)],
        2 => b"bin\x00\xff\r\n".to_vec(),
        3 => integer(random).into_bytes(),
        4 => random.pick(&["-0", "007", "+1", "1.0", " 1", "inf", "-inf", "nan", "1e5"]).into(),
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

/// Scores, none of which is or becomes -0: see docs/redis-compatibility.md.
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

/// Templates by what they are about.
const KINDS: [&[&str]; 10] =
    [&STRINGS, &LISTS, &HASHES, &SETS, &SORTED, &GEO, &BITS, &STREAMS, &KEYS_OF_ANY, &TIMES];

const STRINGS: [&str; 32] = [
    "SET $k $v",
    "SET $k $v ?NX|XX ?GET ?KEEPTTL",
    "SET $k $v EXAT $s ?GET",
    "SET $k $v PXAT $ms",
    "SET $k $v EX 100000|0|-1|9223372036854775807",
    "SETEX $k 100000|0|x $v",
    "PSETEX $k 100000000|-5 $v",
    "SETNX $k $v",
    "GET $k",
    "GETSET $k $v",
    "GETDEL $k",
    "GETEX $k ?PERSIST",
    "GETEX $k EXAT|PXAT $ms",
    "MGET $k*",
    "MSET $k,$v*",
    "MSETNX $k,$v*",
    "APPEND $k $v",
    "STRLEN $k",
    "SETRANGE $k $n $v",
    "SETRANGE $k 70000|536870912|-1|9223372036854775807 $v",
    "GETRANGE $k $i $i",
    "SUBSTR $k $n $n",
    "INCR $k",
    "DECR $k",
    "INCRBY $k $i",
    "DECRBY $k $i",
    "INCRBYFLOAT $k $f",
    "LCS $k $k ?LEN",
    "LCS $k $k IDX ?WITHMATCHLEN ?MINMATCHLEN,$few",
    "PFADD $sketch $e*",
    "PFCOUNT $sketch ?$sketch ?$k",
    "PFMERGE $sketch $sketch ?$k",
];

const LISTS: [&str; 26] = [
    "RPUSH $k $e*",
    "LPUSH $k $e*",
    "RPUSHX|LPUSHX $k $e*",
    "LPOP|RPOP $k ?$n",
    "LPOP|RPOP $k $i",
    "LLEN $k",
    "LINDEX $k $i",
    "LSET $k $n $v",
    "LINSERT $k BEFORE|AFTER|BESIDE $e $v",
    "LRANGE $k $i $i",
    "LRANGE $k 0 -1",
    "LREM $k $n $e",
    "LREM $k $i $e",
    "LTRIM $k $n $n",
    "LPOS $k $e ?RANK,$n ?COUNT,$n ?MAXLEN,$n",
    "LPOS $k $e RANK $i",
    "LMOVE $k $k LEFT|RIGHT LEFT|RIGHT",
    "RPOPLPUSH $k $k",
    "LMPOP $few $k $k LEFT|RIGHT ?COUNT,$n",
    "BLPOP|BRPOP $k $k 0.001",
    "BLPOP $k nan|inf|-1|x",
    "BLMOVE $k $k LEFT|RIGHT LEFT|RIGHT 0.001",
    "BRPOPLPUSH $k $k 0.001",
    "BLMPOP 0.001 $few $k $k LEFT|RIGHT ?COUNT,$few",
    "SORT $k ?DESC ?ALPHA ?LIMIT,$n,$n",
    "SORT $k BY $by ?DESC ?GET,$get ?GET,$get ?STORE,$k",
];

const HASHES: [&str; 20] = [
    "HSET $k $e,$v*",
    "HSET $k $e,$v*",
    "HMSET $k $e,$v*",
    "HSET $k $e",
    "HSETNX $k $e $v",
    "HGET $k $e",
    "HMGET $k $e*",
    "HGETALL $k",
    "HDEL $k $e*",
    "HEXISTS $k $e",
    "HLEN $k",
    "HSTRLEN $k $e",
    "HKEYS|HVALS $k",
    "HINCRBY $k $e $i",
    "HINCRBYFLOAT $k $e $f",
    "HRANDFIELD $k ?$n",
    "HRANDFIELD $k $n WITHVALUES",
    "HSCAN $k 0 COUNT 100000 ?MATCH,$glob",
    "HSCAN $k x",
    "HSCAN $k 0 COUNT 0|-1|x",
];

const SETS: [&str; 21] = [
    "SADD $k $e*",
    "SADD $k $e*",
    "SADD $k $i*",
    "SREM $k $e*",
    "SMEMBERS $k",
    "SISMEMBER $k $e",
    "SMISMEMBER $k $e*",
    "SCARD $k",
    "SPOP $k 100000|0|-1",
    "SRANDMEMBER $k ?$n",
    "SMOVE $k $k $e",
    "SINTER|SUNION|SDIFF $k*",
    "SINTERSTORE|SUNIONSTORE|SDIFFSTORE $k $k*",
    "SINTERSTORE|SUNIONSTORE|SDIFFSTORE $k $k*",
    "SINTERCARD $few $k $k ?LIMIT,$n",
    "SSCAN $k 0 COUNT 100000 ?MATCH,$glob",
    "SORT $k ALPHA STORE $k",
    "SORT $k BY nosort STORE $k",
    "SORT $k ALPHA LIMIT $n $n STORE $k",
    "SORT $k ALPHA GET $get ?GET,$get STORE $k",
    "SORT_RO $k ?DESC ALPHA",
];

const SORTED: [&str; 36] = [
    "ZADD $k $score,$e*",
    "ZADD $k $score,$e*",
    "ZADD $k ?NX|XX ?GT|LT ?CH $score,$e*",
    "ZADD $k ?XX INCR $score $e",
    "ZINCRBY $k $score $e",
    "ZREM $k $e*",
    "ZCARD $k",
    "ZSCORE $k $e",
    "ZMSCORE $k $e*",
    "ZRANK|ZREVRANK $k $e",
    "ZCOUNT $k $end $end",
    "ZRANGE $k $i $i ?REV ?WITHSCORES",
    "ZRANGE $k 0 -1 ?WITHSCORES",
    "ZRANGE $k $end $end BYSCORE ?REV ?LIMIT,$n,$n ?WITHSCORES",
    "ZRANGEBYSCORE $k $end $end ?WITHSCORES ?LIMIT,$n,$n",
    "ZREVRANGEBYSCORE $k $end $end ?LIMIT,$i,$i",
    "ZREVRANGE $k $n $n ?WITHSCORES",
    "ZRANGESTORE $k $k $n $n ?REV",
    "ZRANGESTORE $k $k $end $end BYSCORE ?LIMIT,$n,$n",
    "ZREMRANGEBYRANK $k $n $n",
    "ZREMRANGEBYSCORE $k $end $end",
    "ZPOPMIN|ZPOPMAX $k ?$n",
    "ZMPOP $few $k $k MIN|MAX ?COUNT,$n",
    "BZPOPMIN|BZPOPMAX $k $k 0.001",
    "BZMPOP 0.001 $few $k $k MIN|MAX ?COUNT,$few",
    "ZRANDMEMBER $k ?$n",
    "ZRANDMEMBER $k $n WITHSCORES",
    "ZSCAN $k 0 COUNT 100000 ?MATCH,$glob",
    "ZUNION|ZINTER $few $k $k ?AGGREGATE,MIN|MAX|SUM ?WITHSCORES",
    "ZUNIONSTORE|ZINTERSTORE $k 2 $k $k ?AGGREGATE,MIN ?WEIGHTS,2,0.5",
    "ZUNIONSTORE|ZINTERSTORE $k $few $k $k ?WEIGHTS,inf,1",
    "ZDIFF 2 $k $k ?WITHSCORES",
    "ZDIFFSTORE $k 2 $k $k",
    "ZINTERCARD $few $k $k ?LIMIT,$n",
    "SORT $k BY nosort ?DESC ?LIMIT,$n,$n STORE $k",
    "ZRANGESTORE $k $k x y BYSCORE",
];

const GEO: [&str; 9] = [
    "GEOADD $k ?NX|XX ?CH $long,$lat,$e*",
    "GEOADD $k $long,$lat,$e*",
    "GEOPOS $k $e*",
    "GEOHASH $k $e*",
    "GEODIST $k $e $e ?km|m|ft|x",
    "GEOSEARCH $k FROMLONLAT 15 37 BYRADIUS 300|10000|0|-1 km ?WITHDIST ?WITHCOORD ?WITHHASH",
    "GEOSEARCH $k FROMMEMBER $e BYBOX 400 400 km",
    "GEORADIUSBYMEMBER $k $e 200 km",
    "GEOSEARCHSTORE $k $k FROMLONLAT 15 37 BYRADIUS 1000 km",
];

const BITS: [&str; 13] = [
    "SETBIT $k $bit 0|1|2",
    "GETBIT $k $bit",
    "BITCOUNT $k",
    "BITCOUNT $k $i $i ?BIT|BYTE|BITE",
    "BITPOS $k 0|1|2 ?$n",
    "BITPOS $k 0|1 $i $i ?BIT|BYTE",
    "BITOP AND|OR|XOR $k $k*",
    "BITOP NOT $k $k ?$k",
    "BITFIELD $k GET $width $at",
    "BITFIELD $k SET $width $at $i",
    "BITFIELD $k OVERFLOW WRAP|SAT|FAIL|x INCRBY $width $at $i GET $width $at",
    "BITFIELD_RO $k GET $width $at",
    "BITFIELD_RO $k SET u8 0 1",
];

/// No id that a clock decides, no idle time, and no approximate trim, which here and in Redis
/// removes other nodes.
const STREAMS: [&str; 40] = [
    "XADD $k $id $e,$v*",
    "XADD $k 9-* $e,$v*",
    "XADD $k 9-* f $v g 1",
    "XADD $k ?NOMKSTREAM ?MAXLEN,$few 9-* f $v",
    "XADD $k ?NOMKSTREAM MINID|MAXLEN = $few 9-* f $v",
    "XADD $k $ids $e,$v",
    "XADD $k 9-* f",
    "XDEL $k $id*",
    "XTRIM $k MAXLEN|MINID ?= $few",
    "XTRIM $k MAXLEN 1 LIMIT 1",
    "XLEN $k",
    "XRANGE|XREVRANGE $k $ids $ids ?COUNT,$n",
    "XRANGE $k - +",
    "XSETID $k $id|9-9 ?ENTRIESADDED,$few ?MAXDELETEDID,$id",
    "XREAD ?COUNT,$n STREAMS $k $id|0|$",
    "XREAD ?COUNT,$n STREAMS $k $k $id|0 0",
    "XREAD ?BLOCK,1 STREAMS $k $",
    "XGROUP CREATE $k $group 0|$|$id ?MKSTREAM ?ENTRIESREAD,$n",
    "XGROUP CREATE $k $group 0 MKSTREAM",
    "XGROUP CREATE $k $group 0 MKSTREAM",
    "XGROUP SETID $k $group 0|$|$id ?ENTRIESREAD,$n",
    "XGROUP DESTROY $k $group",
    "XGROUP CREATECONSUMER|DELCONSUMER $k $group $who",
    "XGROUP HELP",
    "XREADGROUP GROUP $group $who ?COUNT,$n ?NOACK STREAMS $k >",
    "XREADGROUP GROUP $group $who ?COUNT,$n STREAMS $k >",
    "XREADGROUP GROUP $group $who ?COUNT,$n STREAMS $k $k > >|0",
    "XREADGROUP GROUP $group $who ?COUNT,$n STREAMS $k $id|0",
    "XREADGROUP GROUP $group $who ?BLOCK,1 STREAMS $k >",
    "XACK $k $group $id*",
    "XPENDING $k $group",
    "XPENDING $k $group $ids",
    "XCLAIM $k $group $who 0 $id* ?FORCE ?JUSTID ?RETRYCOUNT,$n",
    "XCLAIM $k $group $who 0 $id FORCE ?LASTID,$id",
    "XAUTOCLAIM $k $group $who 0 $ids ?COUNT,$n ?JUSTID",
    "XINFO GROUPS $k",
    "XINFO GROUPS $k",
    "XINFO HELP",
    "XINFO STREAM $k x",
    "XRANGE $k - + COUNT",
];

const KEYS_OF_ANY: [&str; 25] = [
    "DEL $k",
    "DEL|UNLINK $k*",
    "EXISTS|TOUCH $k*",
    "TYPE $k",
    "RENAME $k $k",
    "RENAME $k $k",
    "RENAMENX $k $k",
    "COPY $k $k ?REPLACE",
    "COPY $k $k REPLACE",
    "COPY $k $k DB 0|1|16|-1|x ?REPLACE",
    "MOVE $k 0|1|16",
    "OBJECT ENCODING $k",
    "OBJECT ENCODING $k",
    "OBJECT FREQ $k",
    "OBJECT ENCODING $k $k",
    // No DBSIZE, which counts an expired key until a request meets it: `random` has DBSIZE.
    "KEYS $glob",
    "RANDOMKEY",
    "SWAPDB 0 1",
    "SELECT 0|0|0|1|16|x",
    "WATCH $k*",
    "UNWATCH",
    "DUMP nothing",
    "RESTORE $k 0 $v ?REPLACE",
    "COPY $sketch $sketch REPLACE",
    "NOSUCH $k $v",
];

const TIMES: [&str; 14] = [
    "EXPIREAT $k $s ?NX|XX|GT|LT",
    "PEXPIREAT $k $ms ?NX|XX|GT|LT",
    "PEXPIREAT $k 4102444800000 ?GT|LT",
    "EXPIREAT $k 4102444800 NX,GT",
    "EXPIRE $k 100000",
    "PEXPIRE $k 100000000",
    "EXPIRE $k 9223372036854775807|-9223372036854775808|x|-1",
    "PEXPIRE $k 9223372036854775807|-5",
    "TTL|PTTL $k",
    "EXPIRETIME|PEXPIRETIME $k",
    "EXPIRETIME|PEXPIRETIME $k",
    "PERSIST $k",
    "PERSIST $k",
    "EXPIREAT $k",
];
