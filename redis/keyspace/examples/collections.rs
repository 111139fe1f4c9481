//! Memory per element of the common shapes of data, and nanoseconds per operation on them.
//!
//! `cargo run --release -p stillframe-keyspace --example collections` measures every shape in a
//! process of its own: growth of the resident set, allocator included, and processor time of the
//! thread. With the name of a shape and `resp` it prints the commands that fill a Redis with the
//! same data instead, to compare its `used_memory` and `used_memory_rss` before and after:
//!
//! `collections hash resp | redis-cli --pipe`

use std::error::Error;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::process::Command;
use std::time::Duration;

use stillframe::algorithms::imprint::Imprint;
use stillframe_keyspace::{EditError, Expire, Keyspace, KeyspaceOptions, StreamId, Value};

/// The server's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SHAPES: [&str; 6] = ["strings", "hash", "set", "sorted", "lists", "stream"];
const ELEMENTS: u64 = 1_000_000;
const LISTS: u64 = 100_000;
const PER_LIST: u64 = 20;

type Failure = Box<dyn Error>;
type Store = Keyspace<Imprint>;

/// A number below [`ELEMENTS`] for each turn: all of them, in an order without order.
fn shuffled(turn: u64) -> u64 {
    turn.wrapping_mul(618_033_989) % ELEMENTS // the two have no common divisor
}

fn text(what: &str, number: u64) -> Vec<u8> {
    format!("{what}:{number:09}").into_bytes()
}

/// A field of an entry of a stream: names and values of both kinds.
fn entry_field(field: u64, number: u64) -> [Vec<u8>; 2] {
    let value = match field % 2 {
        0 => text("value", number),
        _ => (number * (field + 1)).to_string().into(),
    };
    [format!("field:{field}").into(), value]
}

/// The commands that make a shape, one at a time.
fn commands(
    shape: &str,
    mut each: impl FnMut(&[Vec<u8>]) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    if shape == "lists" {
        for list in 0..LISTS {
            let mut command = vec![b"RPUSH".to_vec(), text("list", list)];
            command.extend((0..PER_LIST).map(|at| text("value", list * PER_LIST + at)));
            each(&command)?;
        }
        return Ok(LISTS * PER_LIST);
    }
    for turn in 0..ELEMENTS {
        let number = shuffled(turn);
        let (element, value) = (text("element", number), text("value", turn));
        let key = b"collection".to_vec();
        match shape {
            "strings" => each(&[b"SET".to_vec(), element, value])?,
            "hash" => each(&[b"HSET".to_vec(), key, element, value])?,
            "set" => each(&[b"SADD".to_vec(), key, element])?,
            "stream" => {
                let mut command = vec![b"XADD".to_vec(), key, format!("{}-0", turn + 1).into()];
                command.extend((0..10).flat_map(|field| entry_field(field, number)));
                each(&command)?;
            }
            _ => each(&[b"ZADD".to_vec(), key, (turn / 3).to_string().into_bytes(), element])?,
        }
    }
    Ok(ELEMENTS)
}

/// Does one of these commands.
fn apply(store: &mut Store, command: &[Vec<u8>]) -> Result<(), Failure> {
    let [name, key, rest @ ..] = command else { return Ok(()) };
    match (&name[..], rest) {
        (b"SET", [value]) => store.set(0, key, value, Expire::Never)?,
        (b"HSET", [field, value]) => drop(store.edit_hash(0, key, |it| it.set(field, value))?),
        (b"SADD", [member]) => drop(store.edit_set(0, key, |it| it.insert(member))?),
        (b"ZADD", [score, member]) => {
            let score: f64 = std::str::from_utf8(score)?.parse()?;
            let _ = store.edit_sorted(0, key, |it| it.set(member, score))?;
        }
        (b"XADD", [id, fields @ ..]) => {
            let ms = std::str::from_utf8(id)?.trim_end_matches("-0").parse()?;
            let (pairs, _) = fields.as_chunks::<2>();
            let pairs = pairs.iter().map(|[name, value]| (&name[..], &value[..]));
            store.edit_stream(0, key, |it| it.add(StreamId { ms, seq: 0 }, pairs))?;
        }
        _ => store.edit_list(0, key, |it| rest.iter().for_each(|value| it.push_back(value)))?,
    }
    Ok(())
}

fn resident_bytes() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = status.split(' ').nth(1).unwrap_or("0").parse()?;
    Ok(pages * 4096)
}

fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Prints the mean time of a million operations.
fn measure<R>(
    what: &str,
    mut operation: impl FnMut(u64) -> Result<R, EditError>,
) -> Result<(), Failure> {
    let start = thread_time();
    for turn in 0..ELEMENTS {
        black_box(operation(turn)?);
    }
    let mean = (thread_time() - start).as_nanos() / u128::from(ELEMENTS);
    println!("    {mean:>5} ns  {what}");
    Ok(())
}

fn run(shape: &str) -> Result<(), Failure> {
    let mut store = Store::create(&KeyspaceOptions::default())?;
    // What is there whatever the data, and the making of the commands.
    store.set(0, b"first", b"value", Expire::Never)?;
    let mut bytes = 0;
    commands(shape, |command| {
        bytes += command.iter().map(Vec::len).sum::<usize>();
        Ok(())
    })?;
    let before = resident_bytes()?;
    let elements = commands(shape, |command| apply(&mut store, command))?;
    let resident = resident_bytes()? - before;
    let booked = store.stats().entry_bytes as u64;
    println!(
        "{shape}: {:.1} bytes per element resident, {:.1} booked",
        resident as f64 / elements as f64,
        booked as f64 / elements as f64
    );
    operations(&mut store, shape)
}

fn operations(store: &mut Store, shape: &str) -> Result<(), Failure> {
    let key = b"collection";
    let name = |turn: u64| text("element", shuffled(turn * 7 + 3));
    let new = |turn: u64| text("new", turn);
    measure("(making names alone)", |turn| Ok(name(turn)))?;
    match shape {
        "hash" => {
            measure("HGET", |turn| {
                Ok(match store.get(0, key, 0).map(|entry| entry.value()) {
                    Some(Value::Hash(it)) => it.get(&name(turn)).map(<[u8]>::len),
                    _ => None,
                })
            })?;
            measure("HSET of a field that is there", |turn| {
                store.edit_hash(0, key, |it| it.set(&name(turn), b"value:other____"))
            })?;
            measure("HSET of a new field", |turn| {
                store.edit_hash(0, key, |it| it.set(&new(turn), b"value"))
            })?;
            measure("HDEL", |turn| store.edit_hash(0, key, |it| it.remove(&new(turn))))
        }
        "sorted" => {
            measure("ZRANK", |turn| {
                Ok(match store.get(0, key, 0).map(|entry| entry.value()) {
                    Some(Value::Sorted(it)) => it.rank(&name(turn)),
                    _ => None,
                })
            })?;
            measure("ZADD of a member that is there", |turn| {
                store.edit_sorted(0, key, |it| it.set(&name(turn), shuffled(turn) as f64))
            })?;
            measure("ZADD of a new member", |turn| {
                store.edit_sorted(0, key, |it| it.set(&new(turn), shuffled(turn) as f64))
            })
        }
        "set" => measure("SISMEMBER", |turn| {
            Ok(match store.get(0, key, 0).map(|entry| entry.value()) {
                Some(Value::Set(it)) => it.contains(&name(turn)),
                _ => false,
            })
        }),
        "stream" => measure("XRANGE of one entry", |turn| {
            Ok(match store.get(0, key, 0).map(|entry| entry.value()) {
                Some(Value::Stream(it)) => {
                    let id = StreamId { ms: shuffled(turn), seq: 0 };
                    it.get(id).map(|entry| entry.fields.count())
                }
                _ => None,
            })
        }),
        "lists" => {
            measure("LPUSH to one list", |turn| {
                store.edit_list(0, key, |it| it.push_front(&name(turn)))
            })?;
            measure("LINDEX in it", |turn| {
                Ok(match store.get(0, key, 0).map(|entry| entry.value()) {
                    Some(Value::List(it)) => it.get(shuffled(turn) as usize).map(<[u8]>::len),
                    _ => None,
                })
            })?;
            measure("RPOP from it", |_| store.edit_list(0, key, |it| it.pop_back()))
        }
        _ => Ok(()),
    }
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match &args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => {
            for shape in SHAPES {
                Command::new(std::env::current_exe()?).arg(shape).status()?;
            }
            Ok(())
        }
        [shape] if SHAPES.contains(shape) => run(shape),
        [shape, "resp"] if SHAPES.contains(shape) => {
            let mut out = BufWriter::new(std::io::stdout().lock());
            commands(shape, |command| {
                write!(out, "*{}\r\n", command.len())?;
                for part in command {
                    write!(out, "${}\r\n", part.len())?;
                    out.write_all(part)?;
                    out.write_all(b"\r\n")?;
                }
                Ok(())
            })?;
            Ok(out.flush()?)
        }
        _ => Err("usage: collections [strings|hash|set|sorted|lists|stream [resp]]".into()),
    }
}
