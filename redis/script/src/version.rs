//! The version of Redis that a server claims to be.

use std::fmt;
use std::str::FromStr;

/// As in `redis_version` of INFO, and `redis.REDIS_VERSION` of scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RedisVersion {
    /// The 7 of 7.4.0.
    pub major: u8,
    /// The 4.
    pub minor: u8,
    /// The 0.
    pub patch: u8,
}

impl RedisVersion {
    /// As one number: `redis.REDIS_VERSION_NUM`.
    #[must_use]
    pub fn number(self) -> u32 {
        u32::from_be_bytes([0, self.major, self.minor, self.patch])
    }
}

/// A text is no version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a version such as 7.4.0, of three numbers up to 255")]
pub struct NoVersion;

impl FromStr for RedisVersion {
    type Err = NoVersion;

    fn from_str(text: &str) -> Result<Self, NoVersion> {
        let mut parts = text.split('.').map(|part| match part.as_bytes() {
            [b'1'..=b'9', ..] | [b'0'] => part.parse().map_err(|_| NoVersion),
            _ => Err(NoVersion),
        });
        let mut part = || parts.next().unwrap_or(Err(NoVersion));
        let version = Self { major: part()?, minor: part()?, patch: part()? };
        parts.next().map_or(Ok(version), |_| Err(NoVersion))
    }
}

impl fmt::Display for RedisVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { major, minor, patch } = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_three_numbers() {
        for text in ["7.0.15", "0.0.0", "255.255.255"] {
            let version: RedisVersion = text.parse().expect("a version");
            assert_eq!(version.to_string(), text);
        }
        for text in
            ["", "7", "7.4", "7.4.0.1", "7.4.x", "7.4.", "7..4", "+7.4.0", "07.4.0", "256.0.0"]
        {
            assert_eq!(text.parse::<RedisVersion>(), Err(NoVersion), "{text}");
        }
        assert_eq!(RedisVersion { major: 7, minor: 4, patch: 1 }.number(), 459_777);
    }
}
