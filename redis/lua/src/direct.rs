//! Requests and runs of scripts without handles of the bindings: see `lift.c`, whose structures
//! these are.
//!
//! - Lua jumps over no frame of Rust here: [`stillframe_request`] calls nothing of Lua, and C makes
//!   values of its result after it has returned.
//! - A panic does not unwind through C: it waits in [`Requests`] until the run has ended.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::{ptr, slice};

use mlua::{Function, LightUserData, Lua, Table, Value};
use mlua_sys::lua_State;

unsafe extern "C-unwind" {
    fn stillframe_requests(state: *mut lua_State);
    fn stillframe_runner(state: *mut lua_State);
}

/// Bytes that are lent.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Text {
    pub(crate) bytes: *const u8,
    pub(crate) length: usize,
}

impl Text {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Self { bytes: bytes.as_ptr(), length: bytes.len() }
    }
}

/// An argument of a request, lent by the interpreter.
#[repr(C)]
pub struct Argument<'a> {
    text: Text,
    number: f64,
    lent: PhantomData<&'a [u8]>,
}

/// What an argument is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Word<'a> {
    /// A string.
    Text(&'a [u8]),
    /// A number.
    Number(f64),
}

impl<'a> Argument<'a> {
    /// What it is.
    pub fn word(&self) -> Word<'a> {
        if self.text.bytes.is_null() {
            return Word::Number(self.number);
        }
        // SAFETY: `ask` of `lift.c` makes arguments, and no one else: the bytes are those of a
        // string on the stack of the function that waits for the request, which keeps the string
        // alive and in its place for 'a. Strings of Lua never change.
        Word::Text(unsafe { slice::from_raw_parts(self.text.bytes, self.text.length) })
    }
}

/// How a reply is to be read.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// It is one of RESP2: the interpreter reads it.
    Here = 0,
    /// The function given to [`requests`] reads it.
    ByFunction = 1,
}

/// The third kind of a reply, beside those of [`Reading`].
const PANICKED: c_int = 2;

/// Runs a request, and appends the reply to an empty buffer.
pub type Ask = fn(&[Argument<'_>], &mut Vec<u8>) -> Reading;

/// Bytes of a reply above which the buffer is not kept for the next one.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Where the requests of an interpreter go.
struct Requests {
    ask: Ask,
    /// The last reply.
    reply: RefCell<Vec<u8>>,
    panic: RefCell<Option<Box<dyn Any + Send>>>,
}

impl Requests {
    fn run(&self, arguments: &[Argument<'_>]) -> Option<(Reading, Text)> {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let mut reply = self.reply.borrow_mut();
            if reply.capacity() > KEPT_BYTES_MAX {
                *reply = Vec::new();
            }
            reply.clear();
            ((self.ask)(arguments, &mut reply), Text::from_bytes(&reply))
        }));
        outcome.map_err(|panic| *self.panic.borrow_mut() = Some(panic)).ok()
    }
}

/// Runs a request of `lift.c`.
///
/// # Safety
/// `requests` is that of [`requests`], `arguments` points to `count` arguments, `reply` to a text.
#[unsafe(no_mangle)]
unsafe extern "C" fn stillframe_request(
    requests: *const c_void,
    arguments: *const Argument<'_>,
    count: usize,
    reply: *mut Text,
) -> c_int {
    // SAFETY: the caller's promise; the data of the interpreter keep the requests as long as it
    // lives.
    let requests = unsafe { &*requests.cast::<Requests>() };
    // SAFETY: the caller's promise; the arguments lie in the caller's frame or on its stack.
    let arguments = unsafe { slice::from_raw_parts(arguments, count) };
    let Some((reading, text)) = requests.run(arguments) else { return PANICKED };
    // SAFETY: the caller's promise.
    unsafe { reply.write(text) };
    reading as c_int
}

/// `redis.call` and `redis.pcall`: their requests go to `ask`. `read` gets a reply as a string and
/// returns whether it is an error, and its value.
///
/// # Errors
/// Memory does not suffice, or the interpreter has such functions already.
pub fn requests(lua: &Lua, ask: Ask, read: &Function) -> mlua::Result<(Function, Function)> {
    if lua.app_data_ref::<Rc<Requests>>().is_some() {
        return Err(mlua::Error::runtime("requests have a place already"));
    }
    let requests = Requests { ask, reply: RefCell::default(), panic: RefCell::default() };
    let requests = Rc::new(requests);
    let place = LightUserData(Rc::as_ptr(&requests).cast_mut().cast());
    lua.set_app_data(requests);
    let push = |state| {
        // SAFETY: the two arguments of `exec_raw` below lie on top of the stack, and are replaced
        // by two other values; `exec_raw` has made room for two more.
        unsafe { stillframe_requests(state) }
    };
    // SAFETY: `exec_raw` calls the closure in protected mode, with room on the stack. The closure
    // owns nothing that a jump out of it would leave behind.
    unsafe { lua.exec_raw((place, read), push) }
}

/// How a run gets its keys and arguments.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passed {
    /// As `KEYS` and `ARGV` of a table.
    AsGlobals = 0,
    /// As two tables.
    AsArguments = 1,
    /// It gets none.
    Not = 2,
}

#[repr(C)]
struct Run {
    texts: *const Text,
    keys: usize,
    args: usize,
    passed: c_int,
}

/// Runs functions in protected mode.
pub struct Runner(Function);

impl Runner {
    /// One that puts `KEYS` and `ARGV` into `frame`, and gives errors to `handler`.
    ///
    /// # Errors
    /// Memory does not suffice.
    pub fn new(lua: &Lua, frame: &Table, handler: &Function) -> mlua::Result<Self> {
        let push = |state| {
            // SAFETY: the two arguments of `exec_raw` below lie on top of the stack, and are
            // replaced by one other value.
            unsafe { stillframe_runner(state) }
        };
        // SAFETY: `exec_raw` calls the closure in protected mode, with room on the stack. The
        // closure owns nothing that a jump out of it would leave behind.
        unsafe { lua.exec_raw((frame, handler), push) }.map(Self)
    }

    /// Runs a function: whether it succeeded, and its first value or what the handler made of its
    /// error.
    ///
    /// # Errors
    /// Memory does not suffice, or the handler failed.
    ///
    /// # Panics
    /// A request of the function panicked.
    pub fn run(
        &self,
        lua: &Lua,
        function: &Function,
        keys: &[&[u8]],
        args: &[&[u8]],
        passed: Passed,
    ) -> mlua::Result<(bool, Value)> {
        let texts: Vec<Text> =
            keys.iter().chain(args).map(|bytes| Text::from_bytes(bytes)).collect();
        let passed = passed as c_int;
        let run = Run { texts: texts.as_ptr(), keys: keys.len(), args: args.len(), passed };
        // C reads this, and what it points to, while this call lasts.
        let outcome = self.0.call((function, LightUserData(ptr::from_ref(&run).cast_mut().cast())));
        if let Some(requests) = lua.app_data_ref::<Rc<Requests>>()
            && let Some(panic) = requests.panic.take()
        {
            resume_unwind(panic);
        }
        outcome
    }
}
