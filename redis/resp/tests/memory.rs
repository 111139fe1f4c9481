//! A peer that announces much and sends little costs little memory, and an idle or ordinary
//! connection allocates nothing per request.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use stillframe_resp::{Limits, Parser, decode_reply};

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is handed on unchanged to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.with(|total| total.set(total.get() + layout.size()));
        // SAFETY: the caller's promise about `layout` is the one asked for here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `alloc` above, hence from `System`, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes this thread allocates in `work`.
fn allocated(work: impl FnOnce()) -> usize {
    let before = ALLOCATED.get();
    work();
    ALLOCATED.get() - before
}

#[test]
fn announced_lengths_reserve_nothing() {
    for hostile in ["*2147483647\r\n$1\r\n", "*2147483647\r\n", "*1\r\n$536870912\r\nabc"] {
        let mut input = hostile.as_bytes().to_vec();
        let mut parser = Parser::new(Limits::OPEN);
        let bytes = allocated(|| assert_eq!(parser.parse(&mut input), Ok(None)));
        assert!(bytes <= 256, "{hostile:?} made the parser allocate {bytes} bytes");
        assert!(parser.wanted() <= 16 * 1024);
    }
    for hostile in ["*2147483647\r\n", "%999999999999\r\n:1\r\n", "$9223372036854775807\r\nabc"] {
        let bytes = allocated(|| assert_eq!(decode_reply(hostile.as_bytes()), Ok(None)));
        assert!(bytes <= 1024, "{hostile:?} made the decoder allocate {bytes} bytes");
    }
}

#[test]
fn requests_after_the_first_allocate_nothing() {
    let mut input = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n".to_vec();
    let mut parser = Parser::new(Limits::OPEN);
    let mut turn = || assert_eq!(parser.parse(&mut input), Ok(Some(33)));
    turn();
    assert_eq!(allocated(|| (0..100).for_each(|_| turn())), 0);
}

#[test]
fn a_long_argument_list_is_given_back() {
    let mut input = [b"*100000\r\n".to_vec(), b"$0\r\n\r\n".repeat(100_000)].concat();
    let mut parser = Parser::new(Limits::OPEN);
    assert_eq!(parser.parse(&mut input), Ok(Some(input.len())));
    assert_eq!(parser.args().len(), 100_000);
    let mut next = b"*1\r\n$4\r\nPING\r\n".to_vec();
    assert!(parser.parse(&mut next).is_ok());
    let bytes = allocated(|| assert!(parser.parse(&mut next).is_ok()));
    assert_eq!((parser.args().len(), bytes), (1, 0));
}
