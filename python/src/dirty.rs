//! Which pages of some memory were written, told by the kernel: `userfaultfd(2)` with asynchronous
//! write protection and `PAGEMAP_SCAN`, Linux 6.7 on.
//!
//! - The first write to a protected page is not answered by anyone: the kernel lifts the protection
//!   and so notes that the page was written.
//! - One request returns the pages that were written and protects them again. What is written from
//!   then on, while they are copied too, is in the next answer.
//! - Numbers and layouts are those of `linux/userfaultfd.h` and `linux/fs.h`.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, opcode};
use rustix::mm::UserfaultfdFlags;

pub(crate) const PAGE_BYTES: usize = 4096;

const API: Opcode = opcode::read_write::<Api>(0xaa, 0x3f);
const REGISTER: Opcode = opcode::read_write::<Register>(0xaa, 0x00);
const SCAN: Opcode = opcode::read_write::<Scan>(b'f', 16);

/// Flag of the system call: faults of user space alone, which needs no privilege. Writes of the
/// kernel into the memory are noted all the same, since nobody has to answer.
const USER_MODE_ONLY: u32 = 1;
/// Features: write protection, also of pages that were never touched, and without an answer.
const FEATURES: u64 = 1 << 0 | 1 << 13 | 1 << 15;
/// Mode of registration: write protection.
const MODE_WRITE_PROTECT: u64 = 1 << 1;
/// Flags of a scan: protect what is returned; fail where protection is not asynchronous.
const PROTECT_CHECKED: u64 = 1 << 0 | 1 << 1;
/// Category: written since it was protected.
const WRITTEN: u64 = 1 << 1;
/// Runs of pages in one answer.
const RUNS_MAX: usize = 1024;

/// `struct uffdio_api`.
#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_register`.
#[repr(C)]
struct Register {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

/// `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Run {
    start: u64,
    end: u64,
    categories: u64,
}

/// `struct pm_scan_arg`.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    runs: u64,
    runs_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

const _: () = assert!(size_of::<Api>() == 24 && size_of::<Register>() == 32);
const _: () = assert!(size_of::<Run>() == 24 && size_of::<Scan>() == 96);

/// Whole pages whose writes the kernel notes.
pub(crate) struct Dirty {
    /// Ends the watch when it is closed.
    _watch: OwnedFd,
    pagemap: File,
    pages: Range<usize>,
}

impl Dirty {
    /// Watches whole pages, which must stay mapped until this is dropped.
    pub(crate) fn watch(pages: Range<usize>) -> io::Result<Self> {
        let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK;
        let flags = flags | UserfaultfdFlags::from_bits_retain(USER_MODE_ONLY);
        // SAFETY: the new descriptor belongs to nobody else.
        let watch = unsafe { rustix::mm::userfaultfd(flags) }?;
        request::<API, _>(&watch, &mut Api { api: 0xaa, features: FEATURES, ioctls: 0 })?;
        let (start, len) = (pages.start as u64, pages.len() as u64);
        let mode = MODE_WRITE_PROTECT;
        request::<REGISTER, _>(&watch, &mut Register { start, len, mode, ioctls: 0 })?;
        let pagemap = File::open("/proc/self/pagemap")?;
        let dirty = Self { _watch: watch, pagemap, pages };
        dirty.take()?; // protects all
        Ok(dirty)
    }

    /// The pages that were written since this was last asked.
    pub(crate) fn take(&self) -> io::Result<Vec<Range<usize>>> {
        let mut written = Vec::new();
        let mut start = self.pages.start as u64;
        while start < self.pages.end as u64 {
            let mut runs = [Run::default(); RUNS_MAX];
            let mut scan = Scan {
                size: size_of::<Scan>() as u64,
                flags: PROTECT_CHECKED,
                start,
                end: self.pages.end as u64,
                runs: runs.as_mut_ptr().expose_provenance() as u64,
                runs_len: RUNS_MAX as u64,
                category_mask: WRITTEN,
                return_mask: WRITTEN,
                ..Scan::default()
            };
            request::<SCAN, _>(&self.pagemap, &mut scan)?;
            let found = runs.iter().take_while(|run| run.end > 0); // the others are as they were
            written.extend(found.map(|run| run.start as usize..run.end as usize));
            if scan.walk_end <= start {
                return Err(io::Error::other("the scan of pages does not go on"));
            }
            start = scan.walk_end;
        }
        Ok(written)
    }
}

/// A request with the struct that it takes.
fn request<const OPCODE: Opcode, T>(to: impl AsFd, value: &mut T) -> Result<(), Errno> {
    // SAFETY: each opcode of this module is made of the layout that its callers pass.
    let updater = unsafe { Updater::<OPCODE, T>::new(value) };
    // SAFETY: as above. The requests change the protection of memory that its owner keeps mapped,
    // and a scan writes as many runs as it is told that there is room for.
    unsafe { rustix::ioctl::ioctl(to, updater) }
}
