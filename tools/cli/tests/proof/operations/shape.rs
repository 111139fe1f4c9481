//! The shape of INFO and of `/metrics`: every section, field, family and label, pinned in a file.
//! Dashboards and alerts are written against names: none changes unnoticed.

use super::figures::get;
use crate::support::{Client, Kind, Setup, own_port, wait_until};
use std::fmt::Write;
use std::path::Path;

/// A name without what differs from thing to thing: `cmdstat_get` is `cmdstat_*`.
fn kind_of(field: &str) -> String {
    let starts = ["cmdstat_", "errorstat_", "latency_percentiles_usec_"];
    if let Some(start) = starts.iter().find(|start| field.starts_with(**start)) {
        return format!("{start}*");
    }
    let numbered = ["db", "slave"].into_iter().find(|start| {
        let number = field.strip_prefix(start);
        number.is_some_and(|it| !it.is_empty() && it.bytes().all(|b| b.is_ascii_digit()))
    });
    numbered.map_or_else(|| field.to_owned(), |start| format!("{start}*"))
}

/// The names in a line of INFO: a field, with those within its value if it has some.
fn field(line: &str) -> Option<String> {
    let (name, value) = line.split_once(':')?;
    let kind = kind_of(name);
    if !kind.ends_with('*') {
        return Some(kind);
    }
    let within = value.split(',').filter_map(|part| part.split_once('=')).map(|(name, _)| name);
    Some(format!("{kind} {}", within.collect::<Vec<_>>().join(",")))
}

/// The names of INFO, a section to a line that begins with `#`.
fn info(client: &mut Client) -> String {
    let mut shape = String::new();
    for line in client.ask("INFO everything").text().lines() {
        let name = line.strip_prefix("# ").map(|section| format!("# {section}"));
        let Some(name) = name.or_else(|| field(line)) else { continue };
        if !shape.lines().any(|known| known == name) {
            writeln!(shape, "{name}").expect("a string");
        }
    }
    shape
}

/// The families of `/metrics`: kind, name, labels.
fn metrics(port: u16) -> String {
    let text = get(port, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut shape = String::new();
    let mut kind = "";
    for line in text.split_once("\r\n\r\n").expect("a head").1.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            kind = family.rsplit(' ').next().expect("a kind");
        } else if !line.starts_with('#') {
            let (series, _) = line.rsplit_once(' ').expect("a series and a value");
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let labels = labels.split("\",").filter_map(|label| label.split_once("=\""));
            let labels: Vec<&str> = labels.map(|(name, _)| name).collect();
            let line = format!("{kind} {name} {}", labels.join(","));
            let line = line.trim_end();
            if !shape.lines().any(|known| known == line) {
                writeln!(shape, "{line}").expect("a string");
            }
        }
    }
    shape
}

/// The lines of `shape` that no earlier list has, below their sections; adds them to `known`.
fn news(shape: &str, known: &mut Vec<String>) -> String {
    let (mut new, mut section) = (String::new(), "");
    for line in shape.lines() {
        if line.starts_with('#') {
            section = line;
        } else if !known.iter().any(|it| it == line) {
            if !section.is_empty() {
                writeln!(new, "{section}").expect("a string");
                section = "";
            }
            writeln!(new, "{line}").expect("a string");
            known.push(line.to_owned());
        }
    }
    new
}

fn start() -> (crate::support::Server, u16) {
    let port = own_port();
    let flags = ["--metrics-port", &port.to_string(), "--repl-diskless-sync-delay", "0"];
    (Setup::new(Kind::Ours("imprint")).flags(&flags).start(), port)
}

#[test]
fn names_of_figures_stay() {
    let ((primary, at), (replica, replica_at)) = (start(), start());
    let mut client = primary.client();
    let mut states = vec![
        ("INFO of a fresh server", info(&mut client)),
        ("/metrics of a fresh server", metrics(at)),
    ];
    client.ok("CONFIG SET appendonly yes min-replicas-to-write 0");
    wait_until("the log is on", || client.info("log_state") == "on");
    client.ok("SET k v EX 1000");
    client.ask("LPUSH k x");
    client.ask("EVAL 'return 1' 0");
    assert_eq!(client.save_in_background(), "ok");
    let mut following = replica.client();
    following.ok(&format!("REPLICAOF 127.0.0.1 {}", primary.port));
    wait_until("the replica follows", || {
        client.info("connected_slaves") == "1" && client.info("slave0").contains("online")
    });
    states.extend([
        ("INFO adds, with a log and a replica", info(&mut client)),
        ("/metrics adds, with a log and a replica", metrics(at)),
        ("INFO adds in a replica", info(&mut following)),
        ("/metrics adds in a replica", metrics(replica_at)),
    ]);
    let mut known = Vec::new();
    let lists =
        states.iter().map(|(title, text)| format!("== {title}\n{}", news(text, &mut known)));
    let shape = lists.collect::<Vec<_>>().join("\n");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/figures.txt");
    if std::env::var_os("STILLFRAME_RECORD").is_some() {
        std::fs::write(&file, &shape).expect("the list is written");
    }
    let known = std::fs::read_to_string(&file).unwrap_or_default();
    let (old, new): (Vec<_>, Vec<_>) = (known.lines().collect(), shape.lines().collect());
    let gone: Vec<_> = old.iter().filter(|line| !new.contains(line)).collect();
    let added: Vec<_> = new.iter().filter(|line| !old.contains(line)).collect();
    assert!(
        known == shape,
        "names or their order have changed: gone {gone:?}, new {added:?}. If that is meant, write \
         {} anew: STILLFRAME_RECORD=1 cargo test -p stillframe-cli --test proof names_of_figures",
        file.display()
    );
}
