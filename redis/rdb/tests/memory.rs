//! Encoding allocates nothing after construction, and decoding allocates in proportion to the
//! bytes that come. An allocator of this test's own counts them.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::{ORIGIN, noise, read};
use stillframe_rdb::{Decoder, Encoder, Event, HashField, Head, Output, Value, Version};

thread_local! {
    static FORBIDDEN: Cell<bool> = const { Cell::new(false) };
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

struct Trap;

// SAFETY: every call is handed on unchanged to the system's allocator, which keeps the contract,
// or ends the process.
unsafe impl GlobalAlloc for Trap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        trap("allocated", layout);
        ALLOCATED.set(ALLOCATED.get() + layout.size());
        // SAFETY: the caller's promise about `layout` is the one asked for here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        trap("freed", layout);
        // SAFETY: `pointer` came from `alloc` above, hence from `System`, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn trap(what: &str, layout: Layout) {
    if FORBIDDEN.replace(false) {
        // Unwinding out of an allocator is not allowed, so the whole test process ends here.
        let bytes = layout.size();
        let head = std::backtrace::Backtrace::force_capture();
        eprintln!("{bytes} bytes {what} where that is forbidden:\n{head}");
        std::process::abort();
    }
}

#[global_allocator]
static ALLOCATOR: Trap = Trap;

/// Keeps nothing but a count.
struct Count(u64);

impl Output for Count {
    type Error = ();

    fn write(&mut self, bytes: &[u8]) -> Result<(), ()> {
        self.0 += bytes.len() as u64;
        Ok(())
    }
}

#[test]
fn encoding_allocates_nothing() {
    let random: Vec<Vec<u8>> =
        [0, 5, 21, 1000, 70_000, 131_072, 140_000, 1 << 20, 3 << 20].map(|n| noise(7, n)).into();
    let repetitive: Vec<Vec<u8>> =
        [1, 3, 100, 10_000, 40_000, 300_000].map(|n| b"stillframe".repeat(n)).into();
    let words: Vec<Vec<u8>> = (0..3000).map(|n| format!("word {n}").repeat(n % 9).into()).collect();
    let numbers: Vec<Vec<u8>> = (0..2000).map(|n| (n * 7919).to_string().into()).collect();
    let head = Head::Key { db: 3, key: b"collection", expire_at_ms: Some(1) };
    let at =
        |text: &[u8]| text.len().is_multiple_of(2).then_some(4_000_000_000_000 - text.len() as i64);
    for version in [Version::Redis12, Version::Valkey80] {
        let mut encoder = Encoder::new(Count(0)).version(version);

        FORBIDDEN.set(true);
        let result = encoder.begin(&ORIGIN).and_then(|()| {
            for round in 0..3 {
                encoder.resize_db(round, 1, u64::MAX)?;
                for bytes in random.iter().chain(&repetitive) {
                    let at = (bytes.len() % 2 == 0).then_some(i64::MAX);
                    encoder.entry(round, bytes, Value::Bytes(bytes), at)?;
                }
                for shift in 0..64 {
                    encoder.entry(round, b"-123456", Value::Int(i64::MIN >> shift), None)?;
                }
            }
            for elements in [&random, &repetitive, &words, &numbers] {
                for len in [0, 1, 5, 128, 129, 512, 513, 2000, 3000] {
                    let elements = &elements[..elements.len().min(len)];
                    let one = || elements.iter().map(Vec::as_slice);
                    let scored = || one().map(|member| (member, member.len() as f64 / 7.0));
                    encoder.list(head, one)?;
                    encoder.set(head, elements.len(), one)?;
                    encoder.hash(head, elements.len(), || one().zip(one()))?;
                    let field = |it| HashField { name: it, value: it, expire_at_ms: at(it) };
                    let fields = || one().map(field);
                    assert_eq!(encoder.expiring_hash(head, elements.len(), fields), Ok(true));
                    encoder.sorted(head, elements.len(), scored, scored)?;
                }
            }
            encoder.finish()
        });
        FORBIDDEN.set(false);

        assert_eq!(result, Ok(encoder.output().0));
    }
}

#[test]
fn a_large_collection_streams_through() {
    let texts: Vec<Vec<u8>> = (0..100_000).map(|n| format!("some text {n}").into_bytes()).collect();
    let head = Head::Key { db: 0, key: b"k", expire_at_ms: None };
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file);
    encoder.begin(&ORIGIN).expect("a Vec takes everything");
    let one = || texts.iter().map(Vec::as_slice);
    encoder.hash(head, texts.len(), || one().zip(one())).expect("a Vec takes everything");
    encoder.list(head, one).expect("a Vec takes everything");
    encoder.finish().expect("a Vec takes everything");
    let before = ALLOCATED.get();
    let mut decoder = Decoder::new(&file[..]);
    let mut elements = 0;
    while let Some(event) = decoder.next().expect("a whole file") {
        elements += usize::from(matches!(event, Event::Element(_)));
    }
    let bytes = ALLOCATED.get() - before;
    assert_eq!(elements, 200_000);
    assert!(bytes < 400_000, "{bytes} bytes for a file of {}", file.len());
}

#[test]
fn announced_lengths_reserve_nothing() {
    let huge = [&b"\x81"[..], &(1u64 << 62).to_be_bytes()].concat();
    let packed = [&b"\xc3\x03"[..], &huge, b"\x01ab"].concat();
    let long_packed = [&b"\xc3"[..], &huge, b"\x3f", b"\x01ab"].concat();
    let listpack = b"\x0d\x0d\0\0\0\x02\0\xf0\xff\xff\xff\x7f\x02\xff".to_vec();
    for kind in [0, 1, 2, 3, 4, 5, 9, 10, 11, 12, 13, 14, 16, 17, 18] {
        for value in [&huge, &packed, &long_packed, &listpack] {
            let resize = b"REDIS0010\xfb\x81\x7f\xff\xff\xff\xff\xff\xff\xff\x00";
            let file = [&resize[..], &[kind], b"\x01k", value].concat();
            let before = ALLOCATED.get();
            assert!(read(&file[..]).is_err());
            let bytes = ALLOCATED.get() - before;
            let shown = value.escape_ascii();
            assert!(
                bytes < 200_000,
                "{shown} of type {kind} made the decoder allocate {bytes} bytes"
            );
        }
    }
}
