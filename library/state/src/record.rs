//! Records: plain values, as whole words.
//!
//! A record of `n` bytes takes `n / 8` words, rounded up; its bytes lie in them from the low byte
//! of the first word on, and the rest of the last word is zero.

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::mutant::Mutant;
use crate::shape::Shape;
use crate::source::{Source, Target};

#[cfg(target_endian = "big")]
compile_error!("records are kept as little-endian bytes, as they lie in memory");

/// A plain value: every pattern of bits is one, and no byte of it is padding.
///
/// Integers, floats, arrays of records, `()` and handles are records; [`record`](crate::record)
/// makes one of a struct.
pub trait Record: Copy + FromBytes + IntoBytes + Immutable + 'static {
    /// Words that it takes.
    const WORDS: usize = size_of::<Self>().div_ceil(8);
    /// What lies where in it.
    fn shape() -> Shape;
}

macro_rules! records {
    ($($ty:ty: $shape:ident),*) => {
        $(impl Record for $ty {
            fn shape() -> Shape {
                Shape::$shape
            }
        })*
    };
}

records!(u8: U8, u16: U16, u32: U32, u64: U64, u128: U128);
records!(i8: I8, i16: I16, i32: I32, i64: I64, i128: I128, f32: F32, f64: F64, (): Unit);

impl<T: Record, const N: usize> Record for [T; N] {
    fn shape() -> Shape {
        Shape::Array(Box::new(T::shape()), N)
    }
}

/// The record in the words from `at` on.
#[inline]
pub(crate) fn load<T: Record>(source: &(impl Source + ?Sized), at: usize) -> T {
    join(source.window(at, T::WORDS).expect("a record lies within the words"))
}

/// The record of these words.
#[inline]
pub(crate) fn join<T: Record>(word: impl Fn(usize) -> u64) -> T {
    let mut value = T::new_zeroed();
    for (index, bytes) in value.as_mut_bytes().chunks_mut(8).enumerate() {
        bytes.copy_from_slice(&word(index).to_le_bytes()[..bytes.len()]);
    }
    value
}

/// Replaces the words from `at` on by those of a record.
#[inline]
pub(crate) fn save<T: Record>(target: &mut (impl Target + ?Sized), at: usize, value: &T) {
    for (index, word) in words(value).enumerate() {
        target.write(at + index, word);
    }
}

/// As [`save`], of a record that was `old`: writes the words that differ.
#[inline]
pub(crate) fn save_changes<T: Record>(
    target: &mut (impl Target + ?Sized),
    at: usize,
    old: &T,
    value: &T,
) {
    for (index, (old, word)) in words(old).zip(words(value)).enumerate() {
        if old != word {
            target.write(at + index, word);
            if Mutant::UpdateWritesOneWord.is_made() {
                return;
            }
        }
    }
}

/// The words of a record.
#[inline]
pub(crate) fn words<T: Record>(value: &T) -> impl Iterator<Item = u64> {
    let (whole, rest) = value.as_bytes().as_chunks::<8>();
    let ends_early = Mutant::RecordsEndEarly.is_made() && !whole.is_empty();
    let last = (!rest.is_empty() && !ends_early).then(|| part(rest));
    whole.iter().map(|&bytes| u64::from_le_bytes(bytes)).chain(last)
}

/// Fewer than 8 bytes as a word.
#[inline]
pub(crate) fn part(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}
