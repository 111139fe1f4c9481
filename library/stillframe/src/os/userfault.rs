//! Write protection of a region's pages whose faults a thread of ours answers: `userfaultfd(2)`.
//!
//! - A write to a protected page makes its thread wait in the kernel until the page is unprotected.
//! - Reads never wait. Pages that were never touched are protected too: by a kernel that can do
//!   that (Linux 6.4), or because they are touched first.
//! - Faults of the kernel itself (a system call that writes into state memory) are not answered and
//!   fail with EFAULT: that is what an unprivileged process may do.
//!
//! Numbers and layouts are those of `linux/userfaultfd.h`, part of the kernel's stable interface.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;

use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, opcode};
use rustix::mm::UserfaultfdFlags;

use super::Region;
use crate::error::MemoryError;

const WORD_BYTES: usize = 8;

/// The group of all its requests, and the version of the interface.
const GROUP: u8 = 0xaa;
const API_VERSION: u64 = 0xaa;
const API: Opcode = opcode::read_write::<Api>(GROUP, 0x3f);
const REGISTER: Opcode = opcode::read_write::<Register>(GROUP, 0x00);
const WRITE_PROTECT: Opcode = opcode::read_write::<WriteProtect>(GROUP, 0x06);

/// Flag of the system call: faults of user space alone, which needs no privilege.
const USER_MODE_ONLY: u32 = 1;
/// Feature: a message says whether it is about a write to a protected page.
const FEATURE_WRITE_PROTECT: u64 = 1 << 0;
/// Feature: pages that were never touched can be protected.
const FEATURE_UNPOPULATED: u64 = 1 << 13;
/// Mode of registration: write protection.
const REGISTER_MODE_WRITE_PROTECT: u64 = 1 << 1;
/// Mode of a protection request: protect. Zero is unprotect, and wakes who waits.
const MODE_PROTECT: u64 = 1 << 0;
/// Kind of a message: a page fault.
const EVENT_PAGE_FAULT: u8 = 0x12;

/// `struct uffdio_api`.
#[repr(C)]
struct Api {
    /// In: the version asked for.
    api: u64,
    /// In: the features wanted. Out: those that the kernel has.
    features: u64,
    /// Out: the requests that the kernel knows, one bit each.
    ioctls: u64,
}

/// `struct uffdio_range`: bytes of address space, whole pages.
#[repr(C)]
struct ByteRange {
    /// In: the first address.
    start: u64,
    /// In: the length.
    len: u64,
}

/// `struct uffdio_register`.
#[repr(C)]
struct Register {
    /// In: what to watch.
    range: ByteRange,
    /// In: for what.
    mode: u64,
    /// Out: the requests possible on the range.
    ioctls: u64,
}

/// `struct uffdio_writeprotect`.
#[repr(C)]
struct WriteProtect {
    /// In: what to protect or unprotect.
    range: ByteRange,
    /// In: which of both.
    mode: u64,
}

/// Bytes of `struct uffd_msg`: the kind in the first byte, a fault's flags at 8, its address at 16.
const MESSAGE_BYTES: usize = 32;
const ADDRESS: Range<usize> = 16..24;

const _: () = assert!(size_of::<Api>() == 24 && size_of::<Register>() == 32);
const _: () = assert!(size_of::<WriteProtect>() == 24);

/// A region whose pages can be protected.
#[derive(Debug)]
pub(crate) struct UserFaults {
    faults: OwnedFd,
    stop: OwnedFd,
    /// Kept: what is protected here stays this memory.
    region: Arc<Region>,
    needs_populated: bool,
}

impl UserFaults {
    /// Whether this machine can do it; if not, one sentence that says what is missing.
    pub(crate) fn available() -> Result<(), &'static str> {
        open().map(|_| ())
    }

    /// Watches all of a region, of which nothing is protected yet.
    pub(crate) fn register(region: &Arc<Region>) -> Result<Self, MemoryError> {
        let (faults, features) = open().map_err(|what| MemoryError::Unavailable { what })?;
        let stop = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)
            .map_err(|errno| refused("watching", 0, errno))?;
        let bytes = region.bytes();
        let range = ByteRange { start: bytes.start as u64, len: bytes.len() as u64 };
        let mut register = Register { range, mode: REGISTER_MODE_WRITE_PROTECT, ioctls: 0 };
        request::<REGISTER, _>(&faults, &mut register)
            .map_err(|errno| refused("watching", bytes.len(), errno))?;
        let needs_populated = features & FEATURE_UNPOPULATED == 0;
        Ok(Self { faults, stop, region: Arc::clone(region), needs_populated })
    }

    /// Whether only pages that were touched before are protected.
    pub(crate) fn needs_populated(&self) -> bool {
        self.needs_populated
    }

    /// Protects whole pages of words: from now on writes to them wait. One request, which walks the
    /// page table.
    pub(crate) fn protect(&self, words: Range<usize>) -> Result<(), MemoryError> {
        let bytes = words.len() * WORD_BYTES;
        self.change(words, MODE_PROTECT).map_err(|errno| refused("protecting", bytes, errno))
    }

    /// Lets writes to whole pages of words go on.
    pub(crate) fn unprotect(&self, words: Range<usize>) {
        let result = self.change(words, 0);
        debug_assert!(result.is_ok(), "unprotecting our own memory: {result:?}");
    }

    /// Nothing: the processor looks at the page table by itself.
    #[inline(always)]
    #[allow(clippy::unused_self, reason = "a place for the checkers, see fake_userfault.rs")]
    pub(crate) fn before_store(&self, _word: usize) {}

    fn change(&self, words: Range<usize>, mode: u64) -> Result<(), Errno> {
        let bytes = self.region.bytes();
        let start = bytes.start + words.start * WORD_BYTES;
        let len = words.len() * WORD_BYTES;
        assert!(start + len <= bytes.end, "words {words:?} of {bytes:?}");
        if len == 0 {
            return Ok(());
        }
        loop {
            let range = ByteRange { start: start as u64, len: len as u64 };
            let mut change = WriteProtect { range, mode };
            match request::<WRITE_PROTECT, _>(&self.faults, &mut change) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                result => return result,
            }
        }
    }

    /// Waits until a thread writes to a protected page and returns the word, or `None` when
    /// stopped.
    fn next(&self) -> Option<usize> {
        loop {
            let mut ready =
                [PollFd::new(&self.stop, PollFlags::IN), PollFd::new(&self.faults, PollFlags::IN)];
            // Interrupted, or nothing yet: looked at below.
            let _ = rustix::event::poll(&mut ready, None);
            if ready[0].revents().contains(PollFlags::IN) {
                return None;
            }
            let mut message = [0; MESSAGE_BYTES];
            // Without waiting. There may be nothing: the thread that waited may be awake by now.
            let read = rustix::io::read(&self.faults, &mut message);
            if read == Ok(MESSAGE_BYTES) && message[0] == EVENT_PAGE_FAULT {
                let address = message[ADDRESS].try_into().expect("eight bytes");
                let offset = usize::from_ne_bytes(address) - self.region.bytes().start;
                return Some(offset / WORD_BYTES);
            }
        }
    }
}

/// The thread that answers faults. Dropping it ends it; nothing may be protected then.
#[derive(Debug)]
pub(crate) struct FaultHandler {
    faults: Arc<UserFaults>,
    thread: Option<thread::JoinHandle<()>>,
}

impl FaultHandler {
    /// Starts the thread. `answer` is given a word of each page that a thread waits to write to; it
    /// must not panic, and it or another thread must unprotect the page.
    pub(crate) fn start(
        faults: Arc<UserFaults>,
        answer: impl Fn(usize) + Send + 'static,
    ) -> Result<Self, MemoryError> {
        let theirs = Arc::clone(&faults);
        let run = move || {
            while let Some(word) = theirs.next() {
                answer(word);
            }
        };
        let thread = thread::Builder::new().name("faults".into()).spawn(run);
        let thread = thread.map_err(|error: io::Error| MemoryError::Refused {
            what: "starting the thread that answers page faults",
            bytes: 0,
            errno: error.raw_os_error().unwrap_or(0),
        })?;
        Ok(Self { faults, thread: Some(thread) })
    }
}

impl Drop for FaultHandler {
    fn drop(&mut self) {
        let result = rustix::io::write(&self.faults.stop, &1_u64.to_ne_bytes());
        debug_assert_eq!(result, Ok(8), "an event counter takes one");
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A descriptor that can do what is needed, and the features it has.
fn open() -> Result<(OwnedFd, u64), &'static str> {
    let missing = |errno| match errno {
        Errno::PERM | Errno::ACCESS => {
            "userfaultfd is not permitted to this process: allow the system call in its sandbox"
        }
        Errno::NOSYS => "this kernel has no userfaultfd: it needs CONFIG_USERFAULTFD",
        Errno::INVAL => "this kernel's userfaultfd is too old: Linux 5.11 is needed",
        _ => "userfaultfd failed: too many open files, or no memory",
    };
    let (_, features) = handshake(0).map_err(missing)?;
    if features & FEATURE_WRITE_PROTECT == 0 {
        return Err("this kernel's userfaultfd cannot write-protect: Linux 5.7 on x86-64 can");
    }
    let wanted = features & (FEATURE_WRITE_PROTECT | FEATURE_UNPOPULATED);
    let (fd, _) = handshake(wanted).map_err(missing)?;
    Ok((fd, wanted))
}

/// A descriptor with the features wanted, and all that the kernel has. It can be done once with
/// each descriptor.
fn handshake(wanted: u64) -> Result<(OwnedFd, u64), Errno> {
    let flags = UserfaultfdFlags::CLOEXEC
        | UserfaultfdFlags::NONBLOCK
        | UserfaultfdFlags::from_bits_retain(USER_MODE_ONLY);
    // SAFETY: the descriptor stays in this module, which uses it on regions of this library alone.
    let fd = unsafe { rustix::mm::userfaultfd(flags) }?;
    let mut api = Api { api: API_VERSION, features: wanted, ioctls: 0 };
    request::<API, _>(&fd, &mut api)?;
    Ok((fd, api.features))
}

/// One request on a descriptor.
fn request<const OPCODE: Opcode, T>(fd: &OwnedFd, value: &mut T) -> Result<(), Errno> {
    // SAFETY: each opcode of this module is made of the layout that its callers pass.
    let updater = unsafe { Updater::<OPCODE, T>::new(value) };
    // SAFETY: as above; what the requests change is the protection of our own memory, and a write
    // that waits is no other write.
    unsafe { rustix::ioctl::ioctl(fd, updater) }
}

fn refused(what: &'static str, bytes: usize, errno: Errno) -> MemoryError {
    MemoryError::Refused { what, bytes, errno: errno.raw_os_error() }
}
