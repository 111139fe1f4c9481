//! Views that other threads of the program read.

use std::collections::BTreeMap;

use stillframe::SinkError;
use stillframe_keyspace::{Entry, EntrySink, ReadViewError, ScanError, Value};

use super::*;
use crate::{DataView, DataViewError};

/// The strings of a view by database and key.
#[derive(Debug, Default, PartialEq, Eq)]
struct Strings(BTreeMap<(usize, String), String>);

impl EntrySink for Strings {
    fn entry(&mut self, db: usize, entry: &Entry) -> Result<(), SinkError> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let value = match entry.value() {
            Value::Int(number) => number.to_string(),
            Value::Bytes(bytes) => text(bytes),
            _ => return Err(SinkError::new(format_args!("a test has strings"))),
        };
        let twice = self.0.insert((db, text(entry.key())), value);
        assert!(twice.is_none(), "a key comes once");
        Ok(())
    }
}

/// Reads a view by so many threads that share out its slots.
fn read(view: &DataView, threads: usize) -> Result<Strings, ScanError> {
    let share = view.slots().div_ceil(threads).max(1);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..threads)
            .map(|number| {
                scope.spawn(move || {
                    let mut strings = Strings::default();
                    view.scan(number * share..(number + 1) * share, &mut strings).map(|()| strings)
                })
            })
            .collect();
        let mut all = Strings::default();
        for reader in readers {
            all.0.extend(reader.join().expect("no panic")?.0);
        }
        Ok(all)
    })
}

/// Money that moves between accounts in transactions: each view has all of it, at each look.
#[test]
fn a_view_is_of_one_instant_whatever_is_written() {
    const ACCOUNTS: usize = 50;
    let folder = folder();
    let server = started(&folder, &["save \"\"", "appendonly yes"]);
    let handle = server.handle();
    let mut client = handle.client().expect("a client");
    for account in 0..ACCOUNTS {
        assert_eq!(ask(&mut client, &format!("SET account:{account} 100")), "OK");
    }
    let moves = thread::spawn(move || {
        for round in 0..3_000_usize {
            let [from, to] = [round * 7 % ACCOUNTS, round * 11 % ACCOUNTS];
            ask(&mut client, "MULTI");
            ask(&mut client, &format!("DECR account:{from}"));
            ask(&mut client, &format!("INCR account:{to}"));
            ask(&mut client, "EXEC");
            if round % 500 == 250 {
                ask(&mut client, "BGREWRITEAOF");
            }
        }
    });
    let (mut views, mut looks) = (Vec::new(), 0);
    while !moves.is_finished() || looks < 20 {
        let view = handle.view().expect("a view");
        let first = read(&view, 1 + looks % 3).expect("the view is there");
        let total: i64 =
            first.0.values().map(|value| value.parse::<i64>().expect("a number")).sum();
        assert_eq!((first.0.len(), total), (ACCOUNTS, 100 * ACCOUNTS as i64));
        views.push((view, first));
        looks += 1;
        if views.len() == 5 {
            let (view, first) = views.remove(looks % 5);
            assert_eq!(read(&view, 2).expect("the view is there"), first, "it stays as it is");
        }
    }
    moves.join().expect("all moved");
    drop(server);
    for (view, _) in views {
        assert!(matches!(read(&view, 2), Err(ScanError::Lost(_))) && view.check().is_err());
    }
    assert!(matches!(handle.view(), Err(DataViewError::Ended)));
}

#[test]
fn a_user_sees_the_keys_that_it_may_read() {
    let folder = folder();
    let server = started(&folder, &["save \"\""]);
    let handle = server.handle();
    let mut client = handle.client().expect("a client");
    for line in [
        "ACL SETUSER ada on >secret +stillframe|view %R~own:* ~both:* %W~written:*",
        "ACL SETUSER bob on >secret +get ~*",
        "ACL SETUSER eve on >secret +@all allkeys",
        "ACL SETUSER off off >secret +@all allkeys",
        "MSET own:1 a both:1 b written:1 c other:1 d",
        "SELECT 3",
        "SET own:3 e",
    ] {
        assert_eq!(ask(&mut client, line), "OK", "{line}");
    }
    let seen = |user: &str, password: &str| {
        let view = handle.view_as(user.as_bytes(), password.as_bytes())?;
        let strings = read(&view, 2).expect("the view is there");
        let keys = strings.0.into_keys().map(|(db, key)| format!("{db} {key}"));
        Ok::<_, DataViewError>(keys.collect::<Vec<_>>())
    };
    assert_eq!(seen("ada", "secret").expect("a view"), ["0 both:1", "0 own:1", "3 own:3"]);
    assert_eq!(seen("eve", "secret").expect("a view").len(), 5);
    assert!(matches!(seen("bob", "secret"), Err(DataViewError::NotAllowed)));
    for (user, password) in [("ada", "wrong"), ("nobody", "secret"), ("off", "secret"), ("ada", "")]
    {
        assert!(matches!(seen(user, password), Err(DataViewError::WrongPassword)), "{user}");
    }
    assert_eq!(read(&handle.view().expect("a view"), 1).expect("it is there").0.len(), 5);
}

/// Rules that change count for a view that is there.
#[test]
fn a_view_is_renewed_as_the_rules_of_its_user_are() {
    let folder = folder();
    let server = started(&folder, &["save \"\""]);
    let handle = server.handle();
    let mut client = handle.client().expect("a client");
    ask(&mut client, "ACL SETUSER ada on >secret +stillframe|view %R~a* %R~b*");
    ask(&mut client, "MSET a 1 b 2 c 3");
    let view = handle.view_as(b"ada", b"secret").expect("a view");
    let clone = view.clone();
    let mut renewed = |line: &str, keys: usize| {
        ask(&mut client, line);
        let renewed = handle.renew_view(&view, b"ada", b"secret");
        assert_eq!(read(&clone, 2).expect("the view is there").0.len(), keys, "{line}");
        renewed
    };
    renewed("SET a2 4", 2).expect("nothing has changed, and the instant stays");
    renewed("ACL SETUSER ada resetkeys %R~c*", 1).expect("other keys");
    renewed("ACL SETUSER ada allkeys", 3).expect("all keys");
    assert!(matches!(renewed("ACL SETUSER ada -@all", 3), Err(DataViewError::NotAllowed)));
    renewed("ACL SETUSER ada +@all", 3).expect("rights again");
    for line in ["ACL SETUSER ada off", "ACL SETUSER ada on resetpass >x", "ACL DELUSER ada"] {
        assert!(matches!(renewed(line, 3), Err(DataViewError::WrongPassword)), "{line}");
    }
}

/// A view for which there is no memory any more ends its readers' work with that error, and costs
/// nothing from then on; a view after it is served.
#[test]
fn a_view_that_costs_too_much_is_given_up() {
    let folder = folder();
    let server = started(&folder, &["save \"\"", "views-memory 1mb"]);
    let handle = server.handle();
    let mut client = handle.client().expect("a client");
    let text = "x".repeat(100_000);
    for number in 0..40 {
        ask(&mut client, &format!("SET k{number} {text}"));
    }
    let view = handle.view().expect("a view");
    assert_eq!(read(&view, 2).expect("it is there").0.len(), 40);
    for number in 0..40 {
        ask(&mut client, &format!("SET k{number} y"));
    }
    let error = read(&view, 2).expect_err("it needs 4 MB");
    assert!(error.to_string().contains("given up"), "{error}");
    let later = handle.view().expect("a view");
    assert_eq!(read(&later, 2).expect("it is there").0.len(), 40);
    let info = ask(&mut client, "INFO everything");
    for fact in ["views_displaced:1\r", "views_read_open:1\r", "views_read_opened:2\r"] {
        assert!(info.contains(fact), "{fact} {info}");
    }
}

#[test]
fn what_was_cleared_is_absent_and_too_many_views_are_refused() {
    let folder = folder();
    let server = started(&folder, &["save \"\""]);
    let handle = server.handle();
    let mut client = handle.client().expect("a client");
    for number in 0..5_000 {
        ask(&mut client, &format!("SET k{number} v"));
    }
    let before = handle.view().expect("a view");
    ask(&mut client, "FLUSHALL");
    ask(&mut client, "SET only one");
    assert_eq!(read(&handle.view().expect("a view"), 2).expect("it is there").0.len(), 1);
    assert_eq!(read(&before, 2).expect("it is there").0.len(), 5_000);
    let mut views = Vec::new();
    let refusal = loop {
        match handle.view() {
            Ok(view) => views.push(view),
            Err(refusal) => break refusal,
        }
    };
    assert!(matches!(refusal, DataViewError::View(ReadViewError::TooMany)), "{refusal}");
    assert_eq!(ask(&mut client, "SAVE"), "OK");
    views.clear();
    // The loop hears of the last handle's end as of a connection.
    while let Err(error) = handle.view() {
        assert!(matches!(error, DataViewError::View(ReadViewError::TooMany)), "{error}");
        thread::yield_now();
    }
}
