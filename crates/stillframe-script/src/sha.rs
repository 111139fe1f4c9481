//! Names of scripts.

use std::fmt;

use sha1::{Digest, Sha1};

/// Name of a script: the SHA-1 of its source, in lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sha([u8; 40]);

impl Sha {
    /// The name of a script with this source.
    pub fn of(source: &[u8]) -> Self {
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
