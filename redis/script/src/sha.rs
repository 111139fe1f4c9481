//! Names of scripts.

use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use sha1::{Digest, Sha1};

/// Name of a script: the SHA-1 of its source, in lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Sha([u8; 40]);

impl Hash for Sha {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0[..8]); // digits of a digest are spread already
    }
}

/// Hashes names of scripts.
pub(crate) type Spread = BuildHasherDefault<Digits>;

/// The digits of a name, spread over all bits.
#[derive(Default)]
pub(crate) struct Digits(u64);

impl Hasher for Digits {
    fn write(&mut self, bytes: &[u8]) {
        let digits = bytes.iter().fold(self.0, |all, digit| all.rotate_left(8) ^ u64::from(*digit));
        self.0 = digits.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}

impl Sha {
    /// The name of a script with this source.
    pub fn hash(source: &[u8]) -> Self {
        Self(hex(&Sha1::digest(source)))
    }

    /// Reads a name, in digits of either case.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let digits: [u8; 40] = text.try_into().ok()?;
        digits
            .iter()
            .all(u8::is_ascii_hexdigit)
            .then(|| Self(digits.map(|d| d.to_ascii_lowercase())))
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for Sha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A digest in hexadecimal digits.
fn hex(digest: &[u8]) -> [u8; 40] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 40];
    for (pair, byte) in text.chunks_exact_mut(2).zip(digest) {
        pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    text
}
