//! How fast files are written and read: `cargo bench -p stillframe-rdb`. Each figure is the best of
//! several rounds, because other work on the machine only ever slows a round down.

use std::convert::Infallible;
use std::hint::black_box;
use std::time::Instant;

use stillframe_rdb::{Crc64, Decoder, Encoder, Head, Origin, Output, Value};

const ROUNDS: usize = 7;

/// Keeps nothing.
struct Nowhere;

impl Output for Nowhere {
    type Error = Infallible;

    fn write(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        black_box(bytes);
        Ok(())
    }
}

/// Prints the rate of the fastest round, over `count` things and `bytes` bytes.
fn report(what: &str, count: usize, bytes: usize, mut round: impl FnMut()) {
    let mut seconds = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        round();
        seconds = seconds.min(begin.elapsed().as_secs_f64());
    }
    let (each_ns, rate) = (seconds * 1e9 / count as f64, bytes as f64 / seconds / 1e6);
    println!("{what:<44} {each_ns:>9.1} ns each {rate:>8.0} MB/s");
}

fn save<O: Output>(output: O, values: &[Vec<u8>], compress: bool) -> Result<u64, O::Error> {
    let mut encoder = Encoder::new(output).compress(compress);
    encoder.begin(&Origin { created_s: 0, used_memory_bytes: 0, aof_base: false })?;
    for (number, value) in values.iter().enumerate() {
        let key = [b"key:000000000000".as_slice(), &(number as u32).to_be_bytes()].concat();
        encoder.entry(0, &key, Value::Bytes(value), None)?;
    }
    encoder.finish()
}

fn noise(length: usize, state: &mut u64, alphabet: u8) -> Vec<u8> {
    let mut byte = || {
        *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        b'0'.wrapping_add((*state >> 56) as u8 & (alphabet - 1))
    };
    (0..length).map(|_| byte()).collect()
}

fn record(number: usize, state: &mut u64) -> Vec<u8> {
    let random = |n, state: &mut u64| String::from_utf8(noise(n, state, 64)).unwrap_or_default();
    let rows: String = (0..8)
        .map(|row| {
            let (id, name) = (number * 8 + row, random(24, state));
            format!("{{\"id\":{id},\"name\":\"{name}\",\"active\":true,\"balance\":{row}00.25}},")
        })
        .collect();
    rows.into_bytes()
}

/// Writes `lists` lists of `each` elements, and one hash of all of them.
fn save_collections<O: Output>(
    output: O,
    elements: &[Vec<u8>],
    each: usize,
) -> Result<u64, O::Error> {
    let mut encoder = Encoder::new(output);
    encoder.begin(&Origin { created_s: 0, used_memory_bytes: 0, aof_base: false })?;
    fn head(key: &[u8]) -> Head<'_> {
        Head::Key { db: 0, key, expire_at_ms: None }
    }
    for (number, list) in elements.chunks(each).enumerate() {
        let key = (number as u32).to_be_bytes();
        encoder.list(head(&key), || list.iter().map(Vec::as_slice))?;
    }
    encoder.hash(head(b"hash"), elements.len(), || {
        elements.iter().map(|element| (&element[..], &element[..]))
    })?;
    encoder.finish()
}

/// How fast the same elements are written and read as lists and as a hash.
fn collections(elements: &[Vec<u8>]) {
    let bytes = elements.iter().map(Vec::len).sum::<usize>() * 3;
    for each in [20, elements.len()] {
        report(&format!("write lists of {each}, and a hash"), elements.len() * 2, bytes, || {
            let Ok(length) = save_collections(Nowhere, elements, each);
            black_box(length);
        });
        let mut file = Vec::new();
        save_collections(&mut file, elements, each).expect("a Vec takes everything");
        report(&format!("read lists of {each}, and a hash"), elements.len() * 2, bytes, || {
            let mut decoder = Decoder::new(&file[..]);
            while let Some(event) = decoder.next().expect("a whole file") {
                black_box(event);
            }
        });
    }
}

fn main() {
    if cfg!(debug_assertions) {
        println!("a debug build: the figures mean nothing");
    }
    let state = &mut 42;
    let block = noise(1 << 20, state, 128);
    for piece in [64, 1024, 128 * 1024] {
        report(&format!("CRC-64 by {piece} bytes"), (1 << 20) / piece, 1 << 20, || {
            let mut crc = Crc64::new();
            block.chunks(piece).for_each(|chunk| crc.update(chunk));
            black_box(crc.value());
        });
    }
    let datasets = [
        ("3 bytes", vec![b"xxx".to_vec(); 100_000]),
        ("1 KiB of noise", (0..20_000).map(|_| noise(1024, state, 128)).collect()),
        ("1 KiB as redis-benchmark", (0..20_000).map(|_| noise(1024, state, 64)).collect()),
        ("about 600 bytes of JSON", (0..20_000).map(|n| record(n, state)).collect()),
        ("1 KiB of one letter", vec![vec![b'x'; 1024]; 20_000]),
        ("100 KiB of noise", (0..200).map(|_| noise(100 << 10, state, 128)).collect()),
    ];
    for (name, values) in &datasets {
        let plain_bytes: usize = values.iter().map(|value| value.len() + 20).sum();
        for compress in [true, false] {
            let how = if compress { "packed" } else { "plain" };
            report(&format!("write {name}, {how}"), values.len(), plain_bytes, || {
                let Ok(length) = save(Nowhere, values, compress);
                black_box(length);
            });
            let mut file = Vec::new();
            save(&mut file, values, compress).expect("a Vec takes everything");
            let size = file.len() * 100 / plain_bytes;
            report(&format!("read {name}, {how} to {size}%"), values.len(), plain_bytes, || {
                let mut decoder = Decoder::new(&file[..]);
                while let Some(event) = decoder.next().expect("a whole file") {
                    black_box(event);
                }
            });
        }
    }
    collections(&(0..200_000).map(|_| noise(16, state, 64)).collect::<Vec<_>>());
}
