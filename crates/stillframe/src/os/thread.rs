//! Scheduling of the calling thread.

/// Lets every thread of ordinary priority run before the calling one: whoever takes images does so
/// with the time that the writer leaves.
///
/// Best effort: a system that refuses keeps the priority as it was.
pub fn lower_priority() {
    #[cfg(not(any(miri, feature = "loom", feature = "shuttle")))]
    {
        // Linux keeps nice values per thread; `None` is the calling one.
        let _ = rustix::process::setpriority_process(None, 19);
    }
}
