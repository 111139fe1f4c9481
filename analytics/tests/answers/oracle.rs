//! All tables of random data against the replies of commands.

use std::collections::BTreeMap;

use serde_json::Value;
use stillframe_peers::reply::Reply;
use stillframe_peers::{Peer, Random, requests, rounds};

use crate::server::{Client, Server};
use crate::{ask, session};

/// Rows of tables, as texts.
type Rows = BTreeMap<&'static str, Vec<String>>;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn pairs(reply: &Reply) -> impl Iterator<Item = (&[u8], &[u8])> {
    reply
        .list()
        .chunks(2)
        .map(|pair| (pair[0].bytes().expect("a text"), pair[1].bytes().expect("a text")))
}

/// What commands say that all tables hold.
fn expected(client: &mut Client) -> Rows {
    let mut rows = Rows::new();
    for db in 0..2 {
        client.ok(&format!("SELECT {db}"));
        for key in client.ok("KEYS *").list() {
            let key = key.bytes().expect("a key");
            of_key(client, db, key, &mut rows);
        }
    }
    client.ok("SELECT 0");
    rows.values_mut().for_each(|rows| rows.sort());
    rows
}

fn of_key(client: &mut Client, db: u8, key: &[u8], rows: &mut Rows) {
    let kind = client.call(&[b"TYPE", key]).text();
    let at = client.call(&[b"PEXPIRETIME", key]).int();
    // Times beyond the year 9999 are null, and told: `far_times_are_null_and_told`.
    let is_shown = (0..=253_402_300_799_999).contains(&at);
    let at = if is_shown { at.to_string() } else { "null".to_owned() };
    let name = hex(key);
    let mut add = |table, row: String| rows.entry(table).or_default().push(row);
    let mut elements = 1;
    match kind.as_str() {
        "string" => {
            let value = client.call(&[b"GET", key]);
            add("strings", format!("{db} {name} {}", hex(value.bytes().expect("a string"))));
        }
        "list" => {
            let all = client.call(&[b"LRANGE", key, b"0", b"-1"]);
            elements = all.list().len();
            for (number, value) in all.list().iter().enumerate() {
                let value = hex(value.bytes().expect("an element"));
                add("lists", format!("{db} {name} {number} {value}"));
            }
        }
        "set" => {
            let all = client.call(&[b"SMEMBERS", key]);
            elements = all.list().len();
            for member in all.list() {
                add("sets", format!("{db} {name} {}", hex(member.bytes().expect("a member"))));
            }
        }
        "zset" => {
            let all = client.call(&[b"ZRANGE", key, b"0", b"-1", b"WITHSCORES"]);
            elements = all.list().len() / 2;
            for (member, score) in pairs(&all) {
                let score: f64 = String::from_utf8_lossy(score).parse().expect("a score");
                add("zsets", format!("{db} {name} {} {score:?}", hex(member)));
            }
        }
        "hash" => {
            let all = client.call(&[b"HGETALL", key]);
            elements = all.list().len() / 2;
            for (field, value) in pairs(&all) {
                add("hashes", format!("{db} {name} {} {}", hex(field), hex(value)));
            }
        }
        "stream" => {
            let all = client.call(&[b"XRANGE", key, b"-", b"+"]);
            elements = all.list().len();
            for entry in all.list() {
                let fields: Vec<String> = pairs(&entry.list()[1])
                    .map(|(field, value)| format!("{}={}", hex(field), hex(value)))
                    .collect();
                let id = hex(entry.list()[0].text().as_bytes());
                add("streams", format!("{db} {name} {id} {}", fields.join(",")));
            }
            of_groups(client, db, key, &mut add);
        }
        other => panic!("{name} is a {other}"),
    }
    add("keys", format!("{db} {name} {} {at} {elements}", hex(kind.as_bytes())));
}

fn of_groups(client: &mut Client, db: u8, key: &[u8], add: &mut dyn FnMut(&'static str, String)) {
    let name = hex(key);
    for group in client.call(&[b"XINFO", b"GROUPS", key]).list() {
        let facts: BTreeMap<String, &Reply> =
            group.list().chunks(2).map(|fact| (fact[0].text(), &fact[1])).collect();
        let (group, pending) = (facts["name"].bytes().expect("a name"), facts["pending"].int());
        let (consumers, last) = (facts["consumers"].int(), facts["last-delivered-id"].text());
        let last = hex(last.as_bytes());
        add("groups", format!("{db} {name} {} {last} {consumers} {pending}", hex(group)));
        let all = client.call(&[b"XPENDING", key, group, b"-", b"+", b"100000"]);
        for entry in all.list() {
            let [id, consumer, _, count] = entry.list() else { panic!("{entry:?}") };
            let id = hex(id.text().as_bytes());
            let consumer = match consumer.bytes() {
                Some(b"") | None => "null".to_owned(),
                Some(name) => hex(name),
            };
            add("pending", format!("{db} {name} {} {id} {consumer} {}", hex(group), count.int()));
        }
    }
}

/// What the tables hold.
fn found(source: &std::path::Path) -> Rows {
    let mut session = session(source, true);
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => format!("{:?}", number.as_f64().unwrap_or(0.0)),
        Value::Array(pairs) => {
            let shown = |pair: &Value| {
                let part = |name| pair[name].as_str().unwrap_or_default().to_owned();
                format!("{}={}", part("field"), part("value"))
            };
            pairs.iter().map(shown).collect::<Vec<_>>().join(",")
        }
        other => other.to_string(),
    };
    let mut rows = Rows::new();
    for (table, columns) in [
        ("keys", "db,key,type,cast(expires_at as bigint),elements"),
        ("strings", "db,key,value"),
        ("lists", "db,key,index,value"),
        ("sets", "db,key,member"),
        ("zsets", "db,key,member,cast(score as varchar)"),
        ("hashes", "db,key,field,value"),
        ("streams", "db,key,id,fields"),
        ("groups", "db,key,name,last_id,consumers,pending"),
        ("pending", "db,key,\"group\",id,consumer,deliveries"),
    ] {
        let names: Vec<String> =
            (0..columns.split(',').count()).map(|it| format!("c{it}")).collect();
        let columns = columns.split(',').zip(&names).map(|(it, name)| format!("{it} as {name}"));
        let columns: Vec<String> = columns.collect();
        let answer = ask(&mut session, &format!("select {} from {table}", columns.join(", ")));
        let row = |row: &Value| {
            let mut texts: Vec<String> = names.iter().map(|name| text(&row[name])).collect();
            if table == "zsets" {
                let score: f64 = texts[3].parse().expect("a score");
                texts[3] = format!("{score:?}");
            }
            texts.join(" ")
        };
        let mut all: Vec<String> = answer.iter().map(row).collect();
        all.sort();
        if !all.is_empty() {
            rows.insert(table, all);
        }
    }
    rows
}

fn fill(client: &mut Client, random: &mut Random, knows_fields: bool) {
    client.ok("FLUSHALL");
    for _ in 0..400 {
        let words = requests::command(random);
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let name = words[0].to_ascii_uppercase();
        // Their replies are not awaited here, or they change what is being asked.
        let is_apart = [
            &b"QUIT"[..],
            b"SELECT",
            b"MULTI",
            b"EXEC",
            b"SUBSCRIBE",
            b"PSUBSCRIBE",
            b"SSUBSCRIBE",
            b"MONITOR",
            b"SHUTDOWN",
            b"RESET",
            b"HELLO",
            b"CLIENT",
            b"WATCH",
            b"DISCARD",
            b"AUTH",
            b"SWAPDB",
            b"MOVE",
            b"REPLICAOF",
            b"SLAVEOF",
            b"FLUSHALL",
            b"FLUSHDB",
            b"STILLFRAME",
        ];
        let blocks = name.first() == Some(&b'B') && name != b"BITFIELD" || name == b"XREAD";
        if !is_apart.contains(&&name[..]) && !blocks && !name.starts_with(b"XREADGROUP") {
            client.call(&words);
        }
    }
    for line in [
        "XGROUP CREATE events g 0 MKSTREAM",
        "XADD events 1-1 a 1 b 2 a 3",
        "XADD events 2-1 a 4",
        "XADD events 3-7 c 5",
        "XREADGROUP GROUP g one COUNT 2 STREAMS events >",
        "XREADGROUP GROUP g two STREAMS events >",
        "XACK events g 1-1",
        "SET number 12",
        "SET timed x EX 1000",
        "SELECT 1",
        "SET number 13",
        "ZADD scores 1.5 a -inf b +inf c",
        "SELECT 0",
    ] {
        client.ok(line);
    }
    client.call(&[b"SET", b"bytes \xff\0", b"\xf0\x9f\0 \\x"]);
    for number in 0..700 {
        client.ok(&format!("RPUSH long {number}"));
        client.ok(&format!("HSET wide f{number} {}", "v".repeat(number % 90)));
        client.ok(&format!("ZADD many {number} m{number}"));
        client.ok(&format!("SADD names n{number}"));
    }
    if knows_fields {
        client.ok("HSET fields a 1 b 2");
        client.ok("HPEXPIRE fields 1000000 FIELDS 1 a");
    }
}

fn agrees(name: &str, server: &Server, knows_fields: bool) {
    let mut random = Random::new(name);
    let mut client = server.client();
    for _ in 0..rounds(3, 100) {
        fill(&mut client, &mut random, knows_fields);
        // A key whose time is short would be gone for one side.
        for db in 0..2 {
            client.ok(&format!("SELECT {db}"));
            for key in client.ok("KEYS *").list() {
                let key = key.bytes().expect("a key");
                if (0..600_000).contains(&client.call(&[b"PTTL", key]).int()) {
                    client.call(&[b"PERSIST", key]);
                }
            }
        }
        client.ok("SELECT 0");
        let expected = expected(&mut client);
        let found = found(&server.socket());
        for (table, rows) in &expected {
            let of_table = found.get(table).cloned().unwrap_or_default();
            let differs = rows.iter().zip(&of_table).find(|(one, other)| one != other);
            assert_eq!(differs, None, "{name}: {table}");
            assert_eq!(rows.len(), of_table.len(), "{name}: {table}");
        }
        assert_eq!(expected.len(), found.len(), "{name}");
    }
}

#[test]
fn tables_hold_what_commands_say_of_this_server() {
    let name = "tables_hold_what_commands_say_of_this_server";
    agrees(name, &Server::ours(&[]), true);
}

#[test]
fn tables_hold_what_commands_say_of_others() {
    let name = "tables_hold_what_commands_say_of_others";
    for peer in [Peer::RedisServer, Peer::Redis74, Peer::Redis8, Peer::Valkey] {
        if let Some(server) = Server::peer(name, peer) {
            println!("{peer:?}");
            agrees(name, &server, peer != Peer::RedisServer);
        }
    }
}

/// Money moves between accounts while questions are asked: their sum is that of every instant.
#[test]
fn an_answer_is_of_one_instant() {
    let server = Server::ours(&[]);
    let mut client = server.client();
    const ACCOUNTS: usize = 500;
    for account in 0..ACCOUNTS {
        client.ok(&format!("SET account:{account} 100"));
    }
    let over = std::sync::atomic::AtomicBool::new(false);
    let mut writer = server.client();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let client = &mut writer;
            let mut random = Random::with_seed(7);
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                let [from, to] = [(); 2].map(|()| random.below(ACCOUNTS));
                client.ok("MULTI");
                client.ok(&format!("INCRBY account:{from} -7"));
                client.ok(&format!("INCRBY account:{to} 7"));
                client.ok("EXEC");
            }
        });
        for _ in 0..10 {
            let mut session = session(&server.socket(), false);
            let sql = "select sum(cast(value as bigint)) as s, count(*) as n from strings \
                       where key like 'account:%'";
            // Twice: an image stays as it was.
            let answers = [(); 2].map(|()| ask(&mut session, sql));
            for answer in answers {
                assert_eq!(answer[0]["s"], 100 * ACCOUNTS);
                assert_eq!(answer[0]["n"], ACCOUNTS);
            }
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
