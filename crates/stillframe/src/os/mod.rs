//! All system calls of the library, and the memory that they hand out.

mod copy;
mod frozen;
mod lease;
#[cfg(not(any(miri, feature = "loom", feature = "shuttle")))]
mod map;
#[cfg(any(miri, feature = "loom", feature = "shuttle"))]
#[path = "heap.rs"]
mod map;
mod process;
mod shareable;
mod thread;
#[cfg(not(any(miri, feature = "loom", feature = "shuttle")))]
mod userfault;
#[cfg(any(miri, feature = "loom", feature = "shuttle"))]
#[path = "fake_userfault.rs"]
mod userfault;

pub use copy::{prefetch, prefetch_once};
pub use frozen::Frozen;
pub use lease::is_open_alone;
pub use map::Shared;
pub use shareable::Shareable;
pub use thread::lower_priority;

pub(crate) use copy::{copy_memory, copy_words, equal_bytes, load_words, plain, store_words};
pub(crate) use map::Region;
pub(crate) use process::{Child, Ended, STATUS_PANICKED};
pub(crate) use thread::thread_time;
pub(crate) use userfault::{FaultHandler, UserFaults};
