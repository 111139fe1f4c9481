//! How a store is opened.

use std::ffi::{c_char, c_void};
use std::mem::size_of;
use std::time::Duration;

use durability::{Error, Increments, LogOptions, Options, Policy};
use engine::OnFull;

use crate::door::{door, write_error};
use crate::error::{Failure, SF_MESSAGE_BYTES, sf_code, sf_error};
use crate::memory::{self, Sized};

/// For `sf_options.log`: whether acts are logged, and when a record is durable.
#[repr(u32)]
#[allow(dead_code, reason = "callers have it from the header")]
pub enum sf_log {
    /// No log: a crash loses what changed since the last checkpoint. Words may be written outside
    /// of acts, too.
    SF_LOG_NONE = 0,
    /// Records are synced at once; one sync makes all durable that wait. The default.
    SF_LOG_ALWAYS = 1,
    /// Records are written within a millisecond, which survives the end of the process, and synced
    /// once a second.
    SF_LOG_EVERY_SECOND = 2,
    /// As before, but synced when the system likes, or when a thread waits.
    SF_LOG_SYSTEM = 3,
}

/// For `sf_options.views_on_full`: what happens when views have used up their memory.
#[repr(u32)]
#[allow(dead_code, reason = "callers have it from the header")]
pub enum sf_on_full {
    /// The oldest view is given up: its reads answer `SF_VIEW_LOST`. The default.
    SF_GIVE_UP = 0,
    /// The writer waits until the oldest view is closed. Never where one thread does both.
    SF_WAIT = 1,
}

/// What is told how a checkpoint ended: with your context, and with its number and null once
/// it is durable, or with 0 and the reason if it failed or could not begin. The reason is valid
/// during the call alone.
///
/// The thread that wrote the checkpoint calls it: one of the store's, or the one that waits for
/// it in a call of yours (`sf_checkpoint_wait`, `sf_store_close`, ...). It wakes the threads that
/// wait, and returns: it calls nothing of this store (`SF_BUSY`, at best), and neither throws nor
/// jumps out. Nothing calls it once the store is closed or discarded, nor in a forked child.
pub type sf_on_checkpoint =
    Option<unsafe extern "C" fn(context: *mut c_void, checkpoint: u64, failure: *const sf_error)>;

/// A function of the caller's with its context.
struct Listener {
    on_checkpoint:
        unsafe extern "C" fn(context: *mut c_void, checkpoint: u64, failure: *const sf_error),
    context: *mut c_void,
}

// SAFETY: the header asks for a function and a context that the store's threads may use.
unsafe impl Send for Listener {}
// SAFETY: as above.
unsafe impl Sync for Listener {}

impl Listener {
    fn call(&self, ended: Result<u64, &Error>) {
        let failure = ended.err().map(|error| {
            let Failure { code, message } = Failure::from(error);
            let mut failure = sf_error { code, message: [0; SF_MESSAGE_BYTES] };
            write_error(&raw mut failure, code, &message);
            failure
        });
        let failure = failure.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the header asks for a function that can be called so.
        unsafe { (self.on_checkpoint)(self.context, ended.unwrap_or(0), failure) };
    }
}

/// How a store is opened. `sf_options_init` sets every field to its default, which is 0 unless the
/// field says otherwise; then set `words`, and what else you want.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct sf_options {
    /// `sizeof(sf_options)`, which `sf_options_init` sets: so a later library serves a program
    /// that was compiled with this header.
    pub size: usize,
    /// Words of state, 64 bits each, zero at first. A checkpoint of more words is recovered at its
    /// own size.
    pub words: u64,
    /// Words that the state may grow to: address space, not memory. 0: it cannot grow.
    pub words_max: u64,
    /// Whose state it is: at most 16 bytes of UTF-8, which all files bear. A directory of another
    /// application is refused. Null: no name. Used during the call alone.
    pub application: *const c_char,
    /// The version of the application's layout: of what each word means. Another one is refused.
    pub layout: u32,
    /// 1: files without a name are taken for the application's own.
    pub adopt_untagged: u32,
    /// An `sf_log`; default `SF_LOG_ALWAYS`.
    pub log: u32,
    /// 1: `sf_store_close` takes a last checkpoint.
    pub checkpoint_on_close: u32,
    /// Milliseconds from one checkpoint to the next, each at the first point after it. 0: only on
    /// demand.
    pub checkpoint_every_ms: u64,
    /// Most bytes a second that checkpoints write. 0: no limit.
    pub checkpoint_bytes_per_s: u64,
    /// Most increments upon a full checkpoint. 0: all checkpoints are full.
    pub increments_max: u32,
    /// 1: checkpoints are packed by LZ4.
    pub pack: u32,
    /// Full checkpoints that are kept, with their increments and the log since; default 2, and 2 at
    /// least.
    pub keep_generations: u64,
    /// Milliseconds of the past that `sf_store_rewind` reaches in any case.
    pub keep_age_ms: u64,
    /// Most bytes of files that are kept, except two generations. 0: no limit.
    pub keep_bytes_max: u64,
    /// Bytes of records that may wait for the disk before an act does; default 64 MiB.
    pub log_waiting_bytes_max: u64,
    /// Views that may be kept at a time; default 64.
    pub views_max: u32,
    /// An `sf_on_full`.
    pub views_on_full: u32,
    /// Bytes of old values that views and the checkpoint under way may keep. 0: a quarter of the
    /// state, 64 MiB at least.
    pub budget_bytes: u64,
    /// 1: ask for pages of 2 MiB.
    pub huge_pages: u32,
    /// 1: touch all memory when the store is opened, so that no write pays for it.
    pub prefault: u32,
    /// Threads that load a checkpoint. 0: as many as the machine likes.
    pub load_threads: u32,
    /// 1: go back to the newest whole checkpoint if a chain of increments is broken. What is lost
    /// is in `sf_store_recovery`, and moved aside.
    pub accept_chain_loss: u32,
    /// 1: go on without what a damaged log has lost.
    pub accept_log_loss: u32,
    /// Zero.
    pub reserved: u32,
    /// Called with `context` when a checkpoint has ended. Null: nothing is.
    pub on_checkpoint: sf_on_checkpoint,
    /// Of yours, for `on_checkpoint`; any thread may use it until the store is closed.
    pub context: *mut c_void,
}

// SAFETY: `size` is first; fields of 4 bytes come in pairs, so there is no padding; numbers and
// pointers have no invalid values.
unsafe impl Sized for sf_options {}

const _: () = assert!(size_of::<sf_options>() == 13 * 8 + 14 * 4);

fn defaults() -> sf_options {
    sf_options {
        size: size_of::<sf_options>(),
        words: 0,
        words_max: 0,
        application: std::ptr::null(),
        layout: 0,
        adopt_untagged: 0,
        log: sf_log::SF_LOG_ALWAYS as u32,
        checkpoint_on_close: 0,
        checkpoint_every_ms: 0,
        checkpoint_bytes_per_s: 0,
        increments_max: 0,
        pack: 0,
        keep_generations: 2,
        keep_age_ms: 0,
        keep_bytes_max: 0,
        log_waiting_bytes_max: 64 << 20,
        views_max: 64,
        views_on_full: sf_on_full::SF_GIVE_UP as u32,
        budget_bytes: 0,
        huge_pages: 0,
        prefault: 0,
        load_threads: 0,
        accept_chain_loss: 0,
        accept_log_loss: 0,
        reserved: 0,
        on_checkpoint: None,
        context: std::ptr::null_mut(),
    }
}

/// Sets every field to its default: `sf_options_init(&options, sizeof options, NULL)`.
#[unsafe(no_mangle)]
pub extern "C" fn sf_options_init(
    options: *mut sf_options,
    size: usize,
    error: *mut sf_error,
) -> sf_code {
    door(error, || {
        memory::is_place(options, "options")?;
        memory::put(options.cast::<usize>(), "options", size)?;
        memory::put_sized(options, "options", defaults())
    })
}

/// A store's options, and whether it has a log.
pub(crate) struct Chosen {
    pub(crate) options: Options,
    pub(crate) has_log: bool,
}

/// What a caller's options ask for.
pub(crate) fn chosen(options: *const sf_options) -> Result<Chosen, Failure> {
    let set = memory::get_sized(options, "options", defaults())?;
    let mut chosen = Options::memory(state_memory(&set)?);
    chosen.checkpoint_on_close = flag(set.checkpoint_on_close, "checkpoint_on_close")?;
    chosen.pack = flag(set.pack, "pack")?;
    chosen.accept_chain_loss = flag(set.accept_chain_loss, "accept_chain_loss")?;
    chosen.accept_log_loss = flag(set.accept_log_loss, "accept_log_loss")?;
    chosen.every = nonzero(set.checkpoint_every_ms).map(Duration::from_millis);
    chosen.bandwidth = nonzero(set.checkpoint_bytes_per_s);
    let increments = nonzero(u64::from(set.increments_max));
    chosen.increments = increments.map(|most| Increments::at_most(whole(most)));
    chosen.retention.generations = whole(set.keep_generations).max(2);
    chosen.retention.age = nonzero(set.keep_age_ms).map(Duration::from_millis);
    chosen.retention.bytes_max = nonzero(set.keep_bytes_max);
    chosen.views_on_full = match set.views_on_full {
        0 => OnFull::Cancel,
        1 => OnFull::Slow,
        other => return Err(not_one_of("views_on_full", "sf_on_full", other)),
    };
    chosen.memory.images = (set.views_max as usize).saturating_add(1);
    if set.load_threads > 0 {
        chosen.load_threads = set.load_threads as usize;
    }
    chosen = with_application(chosen, &set)?;
    let policy = match set.log {
        0 => None,
        1 => Some(Policy::Always),
        2 => Some(Policy::EverySecond),
        3 => Some(Policy::No),
        other => return Err(not_one_of("log", "sf_log", other)),
    };
    chosen.log = LogOptions::policy(policy.unwrap_or_default())
        .waiting_bytes_max(whole(set.log_waiting_bytes_max));
    if set.reserved != 0 {
        return Err(Failure::argument("`options->reserved` is not 0; call sf_options_init first"));
    }
    if let Some(on_checkpoint) = set.on_checkpoint {
        let listener = Listener { on_checkpoint, context: set.context };
        chosen = chosen.on_checkpoint(move |ended| listener.call(ended));
    }
    Ok(Chosen { options: chosen, has_log: policy.is_some() })
}

fn state_memory(set: &sf_options) -> Result<engine::Options, Failure> {
    if set.words == 0 {
        return Err(Failure::argument("`options->words` is 0; set how many words the state has"));
    }
    if set.words_max != 0 && set.words_max < set.words {
        return Err(Failure::argument(format!(
            "`options->words_max` is {}, less than the {} words",
            set.words_max, set.words
        )));
    }
    let mut memory = engine::Options::words(whole(set.words))
        .max_words(whole(set.words_max.max(set.words)))
        .huge_pages(flag(set.huge_pages, "huge_pages")?)
        .prefault(flag(set.prefault, "prefault")?);
    memory.budget_bytes = nonzero(set.budget_bytes).map(whole);
    Ok(memory)
}

fn with_application(options: Options, set: &sf_options) -> Result<Options, Failure> {
    let adopts = flag(set.adopt_untagged, "adopt_untagged")?;
    let options = match memory::string(set.application) {
        Some(tag) => {
            let tag = tag.to_str();
            let tag = tag.map_err(|_| Failure::argument("`options->application` is not UTF-8"))?;
            options.application(tag, set.layout)
        }
        None if set.layout > 0 => {
            return Err(Failure::argument("`options->layout` is set without an application"));
        }
        None => options,
    };
    Ok(if adopts { options.adopt_untagged() } else { options })
}

fn flag(value: u32, name: &str) -> Result<bool, Failure> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Failure::argument(format!("`options->{name}` is {other}, and may be 0 or 1"))),
    }
}

fn not_one_of(name: &str, kind: &str, value: u32) -> Failure {
    Failure::argument(format!("`options->{name}` is {value}, which is no {kind}"))
}

fn nonzero(value: u64) -> Option<u64> {
    (value > 0).then_some(value)
}

fn whole(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_library() {
        let mut set = defaults();
        set.words = 9;
        let Chosen { options, has_log } = chosen(&raw const set).expect("they are sound");
        assert!(has_log);
        let theirs = Options::words(9);
        assert_eq!(options.memory.images, theirs.memory.images);
        assert_eq!(options.memory.max_words, 9);
        assert_eq!(options.retention, theirs.retention);
        assert_eq!(options.log.policy, theirs.log.policy);
        assert_eq!(options.log.waiting_bytes_max, theirs.log.waiting_bytes_max);
        assert_eq!(options.load_threads, theirs.load_threads);
        assert_eq!((options.every, options.bandwidth, options.pack), (None, None, false));
    }

    #[test]
    fn an_older_header_and_a_newer_one_are_understood() {
        // A header of old knew fields up to `words_max`.
        let mut older = defaults();
        (older.size, older.words, older.log) = (24, 5, 77);
        assert!(chosen(&raw const older).expect("they are sound").has_log, "beyond is default");
        // A later header has a field more.
        #[repr(C)]
        struct Newer {
            options: sf_options,
            field: u64,
        }
        let mut newer = Newer { options: defaults(), field: 0 };
        (newer.options.size, newer.options.words) = (size_of::<Newer>(), 5);
        assert!(chosen((&raw const newer).cast()).is_ok());
        newer.field = 1;
        let failure = chosen((&raw const newer).cast()).err().expect("it is unknown");
        assert!(failure.message.contains("install the version of your header"), "{failure:?}");
    }

    #[test]
    fn each_wrong_field_is_named() {
        type Spoil = fn(&mut sf_options);
        let wrong: [(&str, Spoil); 12] = [
            ("size", |set| set.size = 0),
            ("size", |set| set.size = 3),
            ("size", |set| set.size = usize::MAX),
            ("words", |set| set.words = 0),
            ("words_max", |set| set.words_max = 4),
            ("log", |set| set.log = 4),
            ("views_on_full", |set| set.views_on_full = 2),
            ("pack", |set| set.pack = 2),
            ("prefault", |set| set.prefault = u32::MAX),
            ("layout", |set| set.layout = 1),
            ("application", |set| set.application = c"\xFF".as_ptr()),
            ("reserved", |set| set.reserved = 1),
        ];
        for (name, spoil) in wrong {
            let mut set = defaults();
            set.words = 5;
            spoil(&mut set);
            let failure = chosen(&raw const set).err().expect("it is wrong");
            assert_eq!(failure.code, sf_code::SF_ARGUMENT);
            assert!(failure.message.contains(&format!("options->{name}`")), "{failure:?}");
        }
    }
}
