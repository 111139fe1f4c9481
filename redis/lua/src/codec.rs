//! Readers of bytes for `cjson` and `cmsgpack`: see `codec.c`, whose structures these are.
//!
//! A reader finds one piece of a value at a time. C makes values of Lua of the pieces after the
//! reader has returned, so no jump of Lua passes a frame of Rust.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::slice;

use mlua::{LightUserData, Lua, Table};
use mlua_sys::lua_State;

use crate::direct::Text;

unsafe extern "C-unwind" {
    fn stillframe_codecs(state: *mut lua_State);
}

/// What may come next.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The value that the bytes are, from their start on.
    Whole = 0,
    /// The first element of a list, or its end.
    FirstItem = 1,
    /// Another element, or the end.
    Item = 2,
    /// The first key of a map, or its end.
    FirstKey = 3,
    /// Another key, or the end.
    Key = 4,
    /// The value of a key, or one of several values.
    Value = 5,
    /// The end of the bytes.
    Rest = 6,
}

/// A piece of a value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Piece<'a> {
    /// `nil`
    Nil,
    /// A truth value.
    Boolean(bool),
    /// No value that a table can hold: a null pointer.
    Empty,
    /// A number.
    Number(f64),
    /// A string, which lies in the bytes.
    Text(&'a [u8]),
    /// The string in the buffer.
    Buffered,
    /// A list of so many elements, which follow.
    List(usize),
    /// A map of so many keys, each of which comes before its value.
    Map(usize),
    /// The end of a list, a map, or the bytes.
    Close,
    /// What comes is wrong. Why stands in the buffer.
    Wrong,
}

/// Length of a list or a map that ends with [`Piece::Close`].
pub const UNTIL_CLOSE: usize = usize::MAX;

/// Reads the next piece at a position, and moves the position behind it. The buffer is empty.
pub type Next = for<'a> fn(&'a [u8], &mut usize, Place, &mut Vec<u8>) -> Piece<'a>;

/// A piece, as C gets it.
#[repr(C)]
struct Passed {
    kind: c_int,
    number: f64,
    text: Text,
    count: usize,
}

impl Passed {
    fn from_piece(piece: Piece<'_>, buffer: &[u8]) -> Self {
        let mut passed = Self { kind: 0, number: 0.0, text: Text::from_bytes(&[]), count: 0 };
        passed.kind = match piece {
            Piece::Nil => 0,
            Piece::Boolean(value) => 1 + c_int::from(value),
            Piece::Empty => 3,
            Piece::Number(value) => {
                passed.number = value;
                4
            }
            Piece::Text(text) => {
                passed.text = Text::from_bytes(text);
                5
            }
            Piece::Buffered => {
                passed.text = Text::from_bytes(buffer);
                5
            }
            Piece::List(count) => {
                passed.count = count;
                6
            }
            Piece::Map(count) => {
                passed.count = count;
                7
            }
            Piece::Close => 8,
            Piece::Wrong => {
                passed.text = Text::from_bytes(buffer);
                9
            }
        };
        passed
    }
}

/// Bytes of the buffer above which it is not kept for the next piece.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// The readers of an interpreter: of JSON, and of MessagePack.
struct Readers {
    next: [Next; 2],
    buffer: RefCell<Vec<u8>>,
}

/// Reads a piece for `codec.c`.
///
/// # Safety
/// `readers` is that of [`codecs`], `format` the index of one; `bytes` points to a text that lasts
/// as long as the piece is used, `at` to a number, `piece` to room for a piece.
#[unsafe(no_mangle)]
unsafe extern "C" fn stillframe_next(
    readers: *const c_void,
    format: c_int,
    bytes: *const Text,
    at: *mut usize,
    place: Place,
    piece: *mut Passed,
) {
    // SAFETY: the caller's promise; the data of the interpreter keep the readers as long as it
    // lives.
    let readers = unsafe { &*readers.cast::<Readers>() };
    // SAFETY: the caller's promise; the text lies in the caller's frame.
    let bytes = unsafe { &*bytes };
    // SAFETY: the caller's promise: a string on the stack of the function that reads it.
    let bytes = unsafe { slice::from_raw_parts(bytes.bytes, bytes.length) };
    // SAFETY: the caller's promise; the number lies in the caller's frame.
    let at = unsafe { &mut *at };
    let mut buffer = readers.buffer.borrow_mut();
    if buffer.capacity() > KEPT_BYTES_MAX {
        *buffer = Vec::new();
    }
    buffer.clear();
    let next = readers.next[format as usize];
    let found = catch_unwind(AssertUnwindSafe(|| next(bytes, at, place, &mut buffer)));
    let found = found.unwrap_or_else(|_| {
        *buffer = b"the reader panicked".to_vec();
        Piece::Wrong
    });
    // SAFETY: the caller's promise.
    unsafe { piece.write(Passed::from_piece(found, &buffer)) };
}

/// The functions of `cjson` and those of `cmsgpack`, which read by these readers.
///
/// # Errors
/// Memory does not suffice, or the interpreter has such functions already.
pub fn codecs(lua: &Lua, json: Next, message_pack: Next) -> mlua::Result<(Table, Table)> {
    if lua.app_data_ref::<Rc<Readers>>().is_some() {
        return Err(mlua::Error::runtime("the codecs are there already"));
    }
    let readers = Rc::new(Readers { next: [json, message_pack], buffer: RefCell::default() });
    let place = LightUserData(Rc::as_ptr(&readers).cast_mut().cast());
    lua.set_app_data(readers);
    let push = |state| {
        // SAFETY: the argument of `exec_raw` below lies on top of the stack, and is replaced by two
        // values; `exec_raw` has made room for two more.
        unsafe { stillframe_codecs(state) }
    };
    // SAFETY: `exec_raw` calls the closure in protected mode, with room on the stack. The closure
    // owns nothing that a jump out of it would leave behind.
    unsafe { lua.exec_raw(place, push) }
}
