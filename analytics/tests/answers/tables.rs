//! Declared tables, filters, formats and bounds.

use serde_json::{Value, json};
use stillframe_query::{Format, Image, Opening};

use crate::server::Server;
use crate::{ask, run, session};

const ORDERS: &str = "create table orders as hash 'order:*' (id bigint from key, price double, \
                      state text, \"Paid At\" timestamp, open boolean, left_ms bigint from ttl);";

fn orders() -> Server {
    let server = Server::ours(&[]);
    let mut client = server.client();
    for line in [
        "HSET order:1 price 1.5 state new open true",
        "HSET order:2 price 2 state paid open 0",
        "HSET order:3 price cheap state new open maybe",
        "HSET order:x state lost",
        "SET order:4 string",
        "HSET others:5 price 5",
        "RPUSH order:list 1",
        "XADD log:web 5-1 level warn took 12",
        "XADD log:web 6-1 level info",
        "ZADD board:a 3 ada 4.5 bob",
        "SET count:a 7",
        "SET count:b x",
        "RPUSH queue:a one two",
        "PEXPIREAT order:1 99999999999999",
    ] {
        client.ok(line);
    }
    client.call(&[b"HSET", b"order:2", b"Paid At", b"2026-11-28T10:00:00Z"]);
    server
}

#[test]
fn declared_tables_have_types_and_tell_what_does_not_fit() {
    let server = orders();
    let mut session = session(&server.socket(), false);
    run(&mut session, ORDERS, Format::Json, None).expect("a declaration");
    let rows = ask(&mut session, "select * from orders where id is not null order by id");
    assert_eq!(rows.len(), 3);
    assert_eq!((&rows[0]["price"], &rows[0]["open"]), (&json!(1.5), &json!(true)));
    assert!(rows[0]["left_ms"].as_i64().is_some_and(|left| left > 1 << 40));
    assert_eq!(rows[1]["Paid At"], json!("2026-11-28T10:00:00Z"));
    assert_eq!((rows[2].get("price"), rows[2].get("open")), (None, None));
    let findings = session.findings().join("\n");
    for part in [
        "orders.id is null in 1 rows whose value does not fit: \"x\" of key \"order:x\"",
        "orders.price is null in 1 rows whose value does not fit: \"cheap\" of key \"order:3\"",
        "orders.open is null in 1 rows whose value does not fit: \"maybe\"",
    ] {
        assert!(findings.contains(part), "{findings}");
    }
    let of_state = "select state, count(*) as n from orders group by state order by state";
    let rows = ask(&mut session, of_state);
    assert_eq!(
        rows,
        [
            json!({"state": "lost", "n": 1}),
            json!({"state": "new", "n": 2}),
            json!({"state": "paid", "n": 1}),
        ]
    );
}

#[test]
fn each_type_can_be_declared() {
    let server = orders();
    let mut session = session(&server.socket(), false);
    for (declared, expected) in [
        (
            "stream 'log:*' (app text from key, id text from id, level text, took bigint)",
            json!([
                {"app": "web", "id": "5-1", "level": "warn", "took": 12},
                {"app": "web", "id": "6-1", "level": "info"},
            ]),
        ),
        (
            "zset 'board:*' (name text from member, points double from score)",
            json!([{"name": "ada", "points": 3.0}, {"name": "bob", "points": 4.5}]),
        ),
        (
            "string 'count:*' (name text from key, n bigint from value)",
            json!([{"name": "a", "n": 7}, {"name": "b"}]),
        ),
        (
            "list 'queue:*' (place int from index, job text from value)",
            json!([{"place": 0, "job": "one"}, {"place": 1, "job": "two"}]),
        ),
    ] {
        let name = declared.split(' ').next().expect("a type");
        let sql = format!("create table of_{name} as {declared}");
        run(&mut session, &sql, Format::Json, None).expect(declared);
        let sql = format!("select * from of_{name} order by 1, 2");
        assert_eq!(Value::Array(ask(&mut session, &sql)), expected, "{declared}");
    }
    let again =
        run(&mut session, "create table keys as set 'a' (b text from member)", Format::Json, None);
    assert_eq!(again, Err("there is a table keys already".to_owned()));
}

/// Whatever a filter lets a scan pass over, the answer is that of all rows.
#[test]
fn filters_change_no_answer() {
    let server = orders();
    let mut session = session(&server.socket(), false);
    // A table of the same rows, on which nothing is decided early.
    run(&mut session, "create table plain as select * from keys", Format::Json, None)
        .expect("rows");
    for filter in [
        "key like 'order:%'",
        "key like 'order:_'",
        "key like '%1'",
        "key not like 'order:%'",
        "starts_with(key, 'order:') and type = 'hash'",
        "key = 'order:1' or key = 'count:a'",
        "key in ('order:1', 'count:a') and key <> 'order:1'",
        "key in ('order:1', 'count:a') and key in ('count:a', 'count:b')",
        "type in ('hash', 'zset')",
        "db = 0 and type = 'list'",
        "db = 1",
        "ttl is not null",
        "ttl is null and type = 'hash'",
        "ttl > 1000 or type = 'list'",
        "expires_at < timestamp '2000-01-01T00:00:00Z'",
        "not (type = 'hash')",
        "key like 'order:%' and key like 'others%'",
    ] {
        let rows = |table: &str, session: &mut _| {
            ask(session, &format!("select * from {table} where {filter} order by key"))
        };
        let found = rows("keys", &mut session);
        assert_eq!(found, rows("plain", &mut session), "{filter}");
    }
    let few = ask(&mut session, "select key from keys limit 3");
    assert_eq!(few.len(), 3);
}

#[test]
fn formats_hold_the_same_rows() {
    let server = orders();
    let folder = tempfile::TempDir::new().expect("a folder");
    let mut session = session(&server.socket(), false);
    let sql = "select key, type, ttl from keys order by key";
    let expected = ask(&mut session, sql);
    let at = |name: &str| folder.path().join(name);
    for (format, name) in [
        (Format::Csv, "a.csv"),
        (Format::Arrow, "a.arrow"),
        (Format::Parquet, "a.parquet"),
        (Format::Table, "a.txt"),
    ] {
        run(&mut session, sql, format, Some(&at(name))).expect(name);
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 4);
    let csv = std::fs::read_to_string(at("a.csv")).expect("text");
    assert_eq!(csv.lines().next(), Some("key,type,ttl"));
    assert_eq!(csv.lines().count(), expected.len() + 1);
    assert!(csv.contains("count:a,string,\n"), "{csv}");
    let table = std::fs::read_to_string(at("a.txt")).expect("text");
    assert!(table.contains("| count:a    | string |"), "{table}");
    for (name, how) in [("a.parquet", "parquet"), ("a.arrow", "arrow")] {
        let sql = format!(
            "create external table it_{how} stored as {how} location '{}'",
            at(name).display()
        );
        run(&mut session, &sql, Format::Json, None).expect(name);
        let sql = format!("select * from it_{how} order by key");
        assert_eq!(ask(&mut session, &sql), expected, "{name}");
    }
    // A table without rows has its head, lists are texts in CSV.
    run(&mut session, "select * from sets", Format::Csv, Some(&at("b.csv"))).expect("a file");
    assert_eq!(std::fs::read_to_string(at("b.csv")).expect("text"), "db,key,member\n");
    run(&mut session, "select fields from streams", Format::Csv, Some(&at("c.csv"))).expect("file");
    let csv = std::fs::read_to_string(at("c.csv")).expect("text");
    assert!(csv.contains("{field: level, value: warn}"), "{csv}");
}

/// Bytes that are no UTF-8 are shown, and counted; `binary` gives them as they are.
#[test]
fn binary_texts_are_shown_and_counted() {
    let server = Server::ours(&[]);
    let mut client = server.client();
    client.call(&[b"SET", b"a\xff", b"\x00\xfe"]);
    let mut texts = session(&server.socket(), false);
    let rows = ask(&mut texts, "select key, value from strings");
    assert_eq!(rows, [json!({"key": "a\\xff", "value": "\0\\xfe"})]);
    let findings = texts.findings().join("\n");
    assert!(findings.contains("2 texts have \\xNN"), "{findings}");
    let mut bytes = session(&server.socket(), true);
    let rows = ask(&mut bytes, "select key, value from strings");
    assert_eq!(rows, [json!({"key": "61ff", "value": "00fe"})]);
    assert_eq!(bytes.findings(), Vec::<String>::new());
    let rows = ask(&mut bytes, "select value from strings where key = x'61ff'");
    assert_eq!(rows.len(), 1);
}

#[test]
fn a_file_takes_one_answer() {
    let server = orders();
    let folder = tempfile::TempDir::new().expect("a folder");
    let file = folder.path().join("a.csv");
    let mut session = session(&server.socket(), false);
    let sql = "create view few as select key from keys limit 2; select * from few; select 1";
    let outcome = run(&mut session, sql, Format::Csv, Some(&file));
    assert_eq!(outcome, Err("cannot write a second answer: the file has one already".to_owned()));
    let text = std::fs::read_to_string(&file).expect("the first answer");
    // What fails leaves a file as it was.
    let sql = "select cast(key as bigint) from keys";
    assert!(run(&mut session, sql, Format::Csv, Some(&file)).is_err());
    assert_eq!(std::fs::read_to_string(&file).expect("the first answer"), text);
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 1);
    assert_eq!((text.lines().next(), text.lines().count()), (Some("key"), 3));
}

/// Times that no calendar has are null, and told; their ids and texts are there.
#[test]
fn far_times_are_null_and_told() {
    let server = Server::ours(&[]);
    let mut client = server.client();
    client.ok("XADD x 18446744073709551615-0 max 1");
    client.ok("SET far x PXAT 9223372036854775000");
    client.ok("HSET h:1 at 99999999999999999 n 1e400 s it's");
    let mut session = session(&server.socket(), false);
    for sql in ["select id, time from streams", "select expires_at from keys where key = 'far'"] {
        let row = &ask(&mut session, sql)[0];
        assert!(row.get("time").is_none() && row.get("expires_at").is_none(), "{row}");
    }
    assert_eq!(session.findings(), ["1 times are null: they lie beyond the years 1 to 9999"]);
    let sql = "create table h as hash 'h:*' (at timestamp, n double, d bigint from db)";
    run(&mut session, sql, Format::Json, None).expect("a declaration");
    assert_eq!(ask(&mut session, "select at, n, d from h"), [json!({"d": 0})]);
    assert_eq!(session.findings().len(), 3);
}

/// What is quoted reaches the engine as it is written.
#[test]
fn quoted_texts_are_no_statements() {
    let server = Server::ours(&[]);
    server.client().ok("SET it's a;b");
    let mut session = session(&server.socket(), false);
    let rows = ask(&mut session, "select value as \"a\"\"b\" from strings where key = 'it''s'");
    assert_eq!(rows, [json!({"a\"b": "a;b"})]);
    let rows = ask(&mut session, "select key from strings where value = 'x'' or ''1''=''1'");
    assert!(rows.is_empty(), "{rows:?}");
    let rows = ask(&mut session, "select (select value from strings where key = 'nosuch') as c");
    assert_eq!(rows, [json!({})]);
}

/// JSON has no infinity, and null would be a lie.
#[test]
fn what_json_cannot_hold_is_told() {
    let server = Server::ours(&[]);
    server.client().ok("ZADD z inf a 1 b -inf c");
    let mut session = session(&server.socket(), false);
    let rows = ask(&mut session, "select score from zsets where score > 1");
    assert_eq!(rows, [json!({"score": null})]);
    assert_eq!(session.findings(), ["1 numbers are infinite: null in JSON, which has none"]);
}

/// More rows than memory for them: they go through temporary files.
#[test]
fn sorting_beyond_the_bound_of_memory_uses_files() {
    let server = Server::ours(&[("save", "")]);
    let mut client = server.client();
    let script = "for i = 1, 200000 do redis.call('SET', 'key:' .. i, 'v' .. i % 1000) end";
    client.call(&[b"EVAL", script.as_bytes(), b"0"]);
    let image = Image::open(&server.socket().display().to_string(), &Opening::default());
    let temporary = tempfile::TempDir::new().expect("a folder");
    let bounds = stillframe_query::Bounds {
        memory_bytes: 12 << 20,
        threads: 1,
        temporary: temporary.path().to_owned(),
    };
    let image = image.expect("an image");
    let mut session =
        stillframe_query::QuerySession::new(image, false, &bounds).expect("a session");
    let sql = "select key, value from strings order by value, key";
    let rows = ask(&mut session, sql);
    assert_eq!(rows.len(), 200_000);
    let order = |row: &Value| {
        let text = |name| row[name].as_str().unwrap_or_default().to_owned();
        (text("value"), text("key"))
    };
    assert!(rows.is_sorted_by_key(order));
}

#[test]
fn directories_with_a_log_are_read_at_any_moment_of_it() {
    let server = Server::ours(&[("appendonly", "yes"), ("appendfsync", "always")]);
    let mut client = server.client();
    for number in 0..10 {
        client.ok(&format!("SET k{number} {number}"));
    }
    // The server goes on: its directory is read without a lock.
    let count = |opening: &Opening| {
        let folder = server.folder();
        let image = Image::open(&folder.display().to_string(), opening).expect("a directory");
        image.summary().expect("a file").databases.iter().map(|db| db.total()).sum::<u64>()
    };
    assert_eq!(count(&Opening::default()), 10);
    let until = |record| Some(stillframe_durability::Until::Sequence(record));
    let counts: Vec<u64> = (1..=10)
        .map(|record| count(&Opening { until: until(record), ..Opening::default() }))
        .collect();
    assert!(counts.is_sorted() && counts.contains(&5), "{counts:?}");
}

/// The program itself: exports, and its exit status.
#[test]
fn all_tables_are_exported() {
    let server = orders();
    let folder = tempfile::TempDir::new().expect("a folder");
    let out = folder.path().join("tables");
    let export = |more: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_stillframe-query"));
        command.arg("export").arg(server.socket()).arg("--out").arg(&out).args(more);
        command.output().expect("the program runs")
    };
    let done = export(&["--declare", ORDERS]);
    assert!(done.status.success(), "{done:?}");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("4 rows of orders into"), "{said}");
    let mut names: Vec<_> = std::fs::read_dir(&out)
        .expect("the folder")
        .map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "groups.parquet",
            "hashes.parquet",
            "keys.parquet",
            "lists.parquet",
            "orders.parquet",
            "pending.parquet",
            "sets.parquet",
            "streams.parquet",
            "strings.parquet",
            "zsets.parquet"
        ]
    );
    let mut session = session(&server.socket(), false);
    run(&mut session, ORDERS, Format::Json, None).expect("a declaration");
    for name in ["keys", "strings", "hashes", "lists", "zsets", "streams", "orders"] {
        let sql = format!(
            "create external table f_{name} stored as parquet location '{}'",
            out.join(format!("{name}.parquet")).display()
        );
        run(&mut session, &sql, Format::Json, None).expect(name);
        let [one, other] = [name.to_owned(), format!("f_{name}")]
            .map(|table| ask(&mut session, &format!("select count(*) as n from {table}")));
        assert_eq!(one, other, "{name}");
    }
    let wrong = export(&["--table", "nothing"]);
    assert_eq!(wrong.status.code(), Some(1), "{wrong:?}");
}
