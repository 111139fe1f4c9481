//! The door between C and Rust: a panic ends here, and an error becomes a code with a text.

use std::any::Any;
use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Failure, SF_MESSAGE_BYTES, sf_code, sf_error};

/// Runs `body`, and leaves how it ended in `error` (unless that is null) and in the code.
///
/// Every exported function is one call of this. What `body` borrows may be half changed when it
/// panics, hence the assertion: a guard of the [table](crate::table) that is dropped by a panic
/// poisons what it guards, and nothing else outlives the call.
pub(crate) fn door(error: *mut sf_error, body: impl FnOnce() -> Result<(), Failure>) -> sf_code {
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => {
            write_error(error, sf_code::SF_OK, "");
            return sf_code::SF_OK;
        }
        Ok(Err(failure)) => failure,
        Err(payload) => {
            let said = said(payload.as_ref()).to_owned();
            std::mem::forget(payload); // its destructor may panic, too
            Failure::new(sf_code::SF_PANIC, format!("a bug of the library, please report: {said}"))
        }
    };
    write_error(error, failure.code, &failure.message);
    failure.code
}

fn said(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no text")
}

/// Leaves a code and a text in an error of the caller's, unless it is null.
pub(crate) fn write_error(error: *mut sf_error, code: sf_code, message: &str) {
    if error.is_null() || !error.is_aligned() {
        return;
    }
    let end = message.floor_char_boundary(SF_MESSAGE_BYTES - 1);
    // SAFETY: the header asks for null or an error of the caller's own.
    let code_at = unsafe { &raw mut (*error).code };
    // SAFETY: as above.
    let message_at = unsafe { &raw mut (*error).message }.cast::<c_char>();
    // SAFETY: as above; a plain store, since the caller need not have initialized it.
    unsafe { code_at.write(code) };
    // SAFETY: `end` bytes and a zero fit, and the text is in memory of ours.
    unsafe { message_at.copy_from_nonoverlapping(message.as_ptr().cast(), end) };
    // SAFETY: `end` is less than the length of the array.
    unsafe { message_at.wrapping_add(end).write(0) };
}

/// Forks that this process descends from since it first opened something.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Which process this is: a handle of another generation was inherited.
pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// Counts forks from now on.
pub(crate) fn count_forks() {
    extern "C" fn forked() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    static ASKED: Once = Once::new();
    ASKED.call_once(|| {
        // SAFETY: the handler is one atomic addition, which a child of several threads may do. If
        // there is no memory for it, inherited handles go unnoticed. (Miri knows no forks.)
        #[cfg(not(miri))]
        unsafe {
            libc::pthread_atfork(None, None, Some(forked))
        };
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blank() -> sf_error {
        sf_error { code: sf_code::SF_OTHER, message: [1; SF_MESSAGE_BYTES] }
    }

    fn text(error: &sf_error) -> String {
        let bytes: Vec<u8> = error.message.iter().map(|&byte| byte as u8).collect();
        let end = bytes.iter().position(|&byte| byte == 0).expect("it ends");
        String::from_utf8(bytes[..end].to_vec()).expect("UTF-8")
    }

    #[test]
    fn a_panic_becomes_a_code() {
        let mut error = blank();
        let code = door(&raw mut error, || panic!("word {} of {}", 7, 3));
        assert_eq!((code, error.code), (sf_code::SF_PANIC, sf_code::SF_PANIC));
        assert!(text(&error).ends_with("please report: word 7 of 3"), "{}", text(&error));
        assert_eq!(door(std::ptr::null_mut(), || panic!("nobody listens")), sf_code::SF_PANIC);
    }

    #[test]
    fn a_payload_that_panics_when_dropped_ends_here_too() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("and again");
            }
        }
        let code = door(std::ptr::null_mut(), || std::panic::panic_any(Bomb));
        assert_eq!(code, sf_code::SF_PANIC);
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let mut error = blank();
        let long = "ä".repeat(SF_MESSAGE_BYTES);
        door(&raw mut error, || Err(Failure::argument(long)));
        assert_eq!(text(&error), "ä".repeat((SF_MESSAGE_BYTES - 1) / 2));
        door(&raw mut error, || Ok(()));
        assert_eq!((error.code, text(&error)), (sf_code::SF_OK, String::new()));
    }
}
