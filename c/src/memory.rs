//! What callers point to: checked as far as a pointer can be, for null and alignment.

use std::ffi::{CStr, c_char};
use std::mem::size_of;

use crate::error::{Failure, sf_code};

/// A struct of the header that begins with its size in bytes, as the caller's header has it. Any
/// bytes are a value of it.
///
/// # Safety
/// It is `repr(C)`, its first field is a `usize`, and it has no padding and no invalid values.
pub(crate) unsafe trait Sized: Copy {}

fn checked<T>(pointer: *const T, name: &str) -> Result<(), Failure> {
    if pointer.is_null() {
        return Err(Failure::new(sf_code::SF_NULL, format!("`{name}` is null")));
    }
    if !pointer.is_aligned() {
        let bytes = align_of::<T>();
        return Err(Failure::argument(format!("`{name}` is not aligned to {bytes} bytes")));
    }
    Ok(())
}

/// Leaves `value` where the caller asked for it.
pub(crate) fn put<T: Copy>(into: *mut T, name: &str, value: T) -> Result<(), Failure> {
    checked(into, name)?;
    // SAFETY: not null, aligned, and the header asks for a place of the caller's own.
    unsafe { into.write(value) };
    Ok(())
}

/// Whether a value could be [`put`] there: before anything is done that would be lost otherwise.
pub(crate) fn is_place<T>(into: *mut T, name: &str) -> Result<(), Failure> {
    checked(into, name)
}

/// [`put`], unless the caller does not want it.
pub(crate) fn put_if_wanted<T: Copy>(into: *mut T, name: &str, value: T) -> Result<(), Failure> {
    if into.is_null() { Ok(()) } else { put(into, name, value) }
}

/// An array of the caller's, to be read during the call.
pub(crate) fn slice<'a, T>(
    pointer: *const T,
    count: usize,
    name: &str,
) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    checked(pointer, name)?;
    fits::<T>(count, name)?;
    // SAFETY: not null, aligned, of a possible length, and the header asks for `count` items that
    // nobody writes during the call.
    Ok(unsafe { std::slice::from_raw_parts(pointer, count) })
}

/// An array of the caller's, to be written during the call.
pub(crate) fn slice_mut<'a>(
    pointer: *mut u64,
    count: usize,
    name: &str,
) -> Result<&'a mut [u64], Failure> {
    if count == 0 {
        return Ok(&mut []);
    }
    checked(pointer, name)?;
    fits::<u64>(count, name)?;
    // SAFETY: as for `slice`; nobody else reads or writes it during the call. What C code left
    // there, be it nothing, are some bytes to this code, and any bytes are words.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer, count) })
}

fn fits<T>(count: usize, name: &str) -> Result<(), Failure> {
    if count > isize::MAX as usize / size_of::<T>() {
        return Err(Failure::argument(format!("`{name}` of {count} items is no array")));
    }
    Ok(())
}

/// A string that ends with a zero; `None` if it is null.
pub(crate) fn string<'a>(pointer: *const c_char) -> Option<&'a CStr> {
    // SAFETY: the header asks for a string that ends with a zero and is not changed meanwhile.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) })
}

/// Leaves as much of `value` as the caller's header knows of.
pub(crate) fn put_sized<T: Sized>(into: *mut T, name: &str, value: T) -> Result<(), Failure> {
    let size = size_of_theirs(into, name)?;
    let (from, to) = ((&raw const value).cast::<u8>(), into.cast::<u8>());
    let count = size.min(size_of::<T>()) - size_of::<usize>();
    let from = from.wrapping_add(size_of::<usize>());
    let to = to.wrapping_add(size_of::<usize>());
    // SAFETY: both are at least as long as `count` and the size in front, and do not overlap.
    unsafe { to.copy_from_nonoverlapping(from, count) };
    Ok(())
}

/// The caller's fields over those of `default`. What only a later version knows must be zero.
pub(crate) fn get_sized<T: Sized>(from: *const T, name: &str, default: T) -> Result<T, Failure> {
    let size = size_of_theirs(from, name)?;
    let mut value = default;
    let count = size.min(size_of::<T>());
    // SAFETY: the caller's struct has `size` bytes, as it says itself, and ours `size_of::<T>()`;
    // any bytes are a value of `T`.
    unsafe { (&raw mut value).cast::<u8>().copy_from_nonoverlapping(from.cast::<u8>(), count) };
    for at in count..size {
        // SAFETY: `at` is within the caller's struct.
        let byte = unsafe { from.cast::<u8>().wrapping_add(at).read() };
        if byte != 0 {
            return Err(Failure::argument(format!(
                "byte {at} of `{name}` is set, and this version of the library knows {} bytes; \
                 install the version of your header",
                size_of::<T>()
            )));
        }
    }
    Ok(value)
}

/// The size that a struct of the caller says that it has.
fn size_of_theirs<T: Sized>(pointer: *const T, name: &str) -> Result<usize, Failure> {
    checked(pointer, name)?;
    // SAFETY: not null and aligned, and `T` starts with a `usize`.
    let size = unsafe { pointer.cast::<usize>().read() };
    // A struct that was never initialized seldom passes.
    if !(size_of::<usize>()..=1 << 12).contains(&size) || !size.is_multiple_of(8) {
        return Err(Failure::argument(format!(
            "`{name}->size` is {size}; set it to sizeof *{name}"
        )));
    }
    Ok(size)
}

/// Leaves `bytes` and a zero, for which the caller has room.
pub(crate) fn put_bytes(into: *mut c_char, name: &str, bytes: &[u8]) -> Result<(), Failure> {
    checked(into, name)?;
    // SAFETY: not null, and the header asks for so much room.
    unsafe { into.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len()) };
    // SAFETY: as above.
    unsafe { into.wrapping_add(bytes.len()).write(0) };
    Ok(())
}
