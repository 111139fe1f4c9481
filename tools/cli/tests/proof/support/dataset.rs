//! Whole datasets: random ones, and what a server holds, read by ordinary commands.

use super::{Client, Random, Reply, encode, now_ms};
use std::collections::BTreeMap;

pub(crate) const DATABASES: usize = 16;

/// A value and when it expires: -1 for never, otherwise milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) value: Vec<u8>,
    pub(crate) expire_ms: i64,
}

/// Items by database and key.
pub(crate) type Dataset = BTreeMap<(usize, Vec<u8>), Item>;

/// A dataset of `keys` keys with values of every kind that the file format distinguishes.
pub(crate) fn random(random: &mut Random, keys: usize) -> Dataset {
    let mut dataset = Dataset::new();
    for number in 0..keys {
        let database = if random.below(2) == 0 { 0 } else { random.below(DATABASES) };
        let length = random.below(12);
        let key = match random.below(8) {
            0 => random.bytes(length),
            1 => number.to_string().into_bytes(),
            2 => format!("{}:{number}", "k".repeat(70)).into_bytes(),
            _ => format!("key:{number}").into_bytes(),
        };
        let expire_ms = match random.below(4) {
            0 => now_ms() + 3_600_000 + random.below(1 << 40) as i64,
            _ => -1,
        };
        let value = random_value(random);
        dataset.insert((database, key), Item { value, expire_ms });
    }
    // One of each size around a limit of the format, and two large ones.
    for size in [0, 63, 64, 16_383, 16_384, 20_000, 1 << 20, (3 << 20) + 1] {
        let value = random.bytes(size);
        dataset.insert((0, format!("raw:{size}").into()), Item { value, expire_ms: -1 });
        let value = b"compressible ".iter().copied().cycle().take(size).collect();
        dataset.insert((15, format!("flat:{size}").into()), Item { value, expire_ms: -1 });
    }
    dataset
}

fn random_value(random: &mut Random) -> Vec<u8> {
    let integers = [0, 1, -1, 127, 128, -128, -129, 32_767, 32_768, -32_768, -32_769];
    let wide = [i64::from(i32::MAX), i64::from(i32::MIN), 1 << 31, i64::MAX, i64::MIN];
    match random.below(9) {
        0 => Vec::new(),
        1 => random.pick(&integers).to_string().into_bytes(),
        2 => random.pick(&wide).to_string().into_bytes(),
        3 => (random.next() as i32).to_string().into_bytes(),
        // Looks like a number and is none.
        4 => {
            random.pick(&["007", "+1", "-0", "1.0", " 1", "9223372036854775808"]).as_bytes().into()
        }
        5 => "ab".repeat(random.below(400)).into_bytes(),
        6 => {
            let length = random.below(40);
            random.bytes(length)
        }
        7 => {
            let length = random.below(2_000);
            random.bytes(length)
        }
        _ => format!("value {}", random.below(1000)).into_bytes(),
    }
}

/// Stores a dataset by SET and PEXPIREAT.
pub(crate) fn load(client: &mut Client, dataset: &Dataset) {
    let mut bytes = Vec::new();
    let mut replies = 0;
    for ((database, key), item) in dataset {
        encode(&[b"SELECT", database.to_string().as_bytes()], &mut bytes);
        encode(&[b"SET", key, &item.value], &mut bytes);
        replies += 2;
        if item.expire_ms >= 0 {
            encode(&[b"PEXPIREAT", key, item.expire_ms.to_string().as_bytes()], &mut bytes);
            replies += 1;
        }
        if bytes.len() > 1 << 16 {
            flush(client, &mut bytes, &mut replies);
        }
    }
    flush(client, &mut bytes, &mut replies);
    client.ok("SELECT 0");
}

fn flush(client: &mut Client, bytes: &mut Vec<u8>, replies: &mut usize) {
    assert!(client.send_raw(bytes), "the server closed the connection");
    bytes.clear();
    for _ in 0..std::mem::take(replies) {
        let reply = client.reply();
        assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
    }
}

/// Reads all that a server holds by SCAN, GET and PEXPIRETIME.
pub(crate) fn read(client: &mut Client) -> Dataset {
    let mut dataset = Dataset::new();
    for database in 0..DATABASES {
        client.ok(&format!("SELECT {database}"));
        let mut cursor = "0".to_owned();
        loop {
            let page = client.ask(&format!("SCAN {cursor} COUNT 1000"));
            let [next, keys] = page.list() else { panic!("SCAN gives two elements: {page:?}") };
            for key in keys.list() {
                let key = key.bytes().expect("a key");
                // A key may expire between SCAN and GET.
                let value = client.call(&[b"GET", key]);
                let expire_ms = client.call(&[b"PEXPIRETIME", key]).int();
                if let Some(value) = value.bytes() {
                    let item = Item { value: value.to_vec(), expire_ms };
                    dataset.insert((database, key.to_vec()), item);
                }
            }
            cursor = next.text();
            if cursor == "0" {
                break;
            }
        }
    }
    client.ok("SELECT 0");
    dataset
}

/// Fails, naming the keys, unless two datasets hold the same, with expiries equal or both set and
/// less than `slack_ms` apart.
pub(crate) fn assert_same(left: &Dataset, right: &Dataset, slack_ms: i64) {
    let same = |(l, r): (&Item, &Item)| {
        let expiries = l.expire_ms == r.expire_ms
            || (l.expire_ms >= 0 && r.expire_ms >= 0)
                && (l.expire_ms - r.expire_ms).abs() <= slack_ms;
        expiries && l.value == r.value
    };
    let differs = |key: &&(usize, Vec<u8>)| !left.get(*key).zip(right.get(*key)).is_some_and(same);
    let wrong: Vec<_> = left.keys().chain(right.keys()).filter(differs).take(5).collect();
    for key in &wrong {
        println!("{key:?}: {:?} against {:?}", left.get(*key), right.get(*key));
    }
    assert!(wrong.is_empty(), "datasets of {} and {} keys differ", left.len(), right.len());
}
