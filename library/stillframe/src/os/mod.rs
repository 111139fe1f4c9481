//! All system calls of the library, and the memory that they hand out.
//!
//! - On Linux memory is mapped, and images may be taken by `fork` and `userfaultfd`.
//! - On other systems memory is the heap's, and what only Linux has is missing (`elsewhere.rs`).
//! - The checkers (Miri, loom, shuttle) know neither `mmap` nor page faults.

mod copy;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod frozen;
#[cfg(target_os = "linux")]
mod lease;
#[cfg(all(target_os = "linux", not(any(miri, feature = "loom", feature = "shuttle"))))]
mod map;
#[cfg(any(not(target_os = "linux"), miri, feature = "loom", feature = "shuttle"))]
#[path = "heap.rs"]
mod map;
#[cfg(target_os = "linux")]
mod process;
mod shareable;
#[cfg(target_os = "linux")]
mod thread;
#[cfg(feature = "rivals")]
#[cfg_attr(
    any(not(target_os = "linux"), miri, feature = "loom", feature = "shuttle"),
    path = "fake_userfault.rs"
)]
mod userfault;

pub use copy::{prefetch, prefetch_once};
#[cfg(not(target_os = "linux"))]
pub use elsewhere::{Frozen, is_open_alone, lower_priority};
#[cfg(target_os = "linux")]
pub use frozen::Frozen;
#[cfg(target_os = "linux")]
pub use lease::is_open_alone;
pub use map::Shared;
pub use shareable::Shareable;
#[cfg(target_os = "linux")]
pub use thread::lower_priority;

pub(crate) use copy::{copy_memory, copy_words, equal_bytes, load_words, plain, store_words};
#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::{Child, Ended, NO_FORK, STATUS_PANICKED, thread_time};
pub(crate) use map::Region;
#[cfg(target_os = "linux")]
pub(crate) use process::{Child, Ended, NO_FORK, STATUS_PANICKED};
#[cfg(target_os = "linux")]
pub(crate) use thread::thread_time;
#[cfg(feature = "rivals")]
pub(crate) use userfault::{FaultHandler, UserFaults};
