//! The addresses of a node, as the membership of a group holds them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where a node is reached. The text form is `HOST:PORT/HOST:PORT`: the port of this crate, then
/// the port for clients. IPv6 addresses stand in brackets.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Member {
    /// `HOST:PORT` for the other nodes.
    pub raft: String,
    /// `HOST:PORT` for clients.
    pub client: String,
}

/// Why a text names no member.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not HOST:PORT/HOST:PORT (raft port first, then the port for clients)")]
pub struct NoMember {
    text: String,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.raft, self.client)
    }
}

impl FromStr for Member {
    type Err = NoMember;

    fn from_str(text: &str) -> Result<Self, NoMember> {
        let parts = text.split_once('/').filter(|&(raft, client)| {
            host_and_port(raft).is_some() && host_and_port(client).is_some()
        });
        let (raft, client) = parts.ok_or_else(|| NoMember { text: text.to_owned() })?;
        Ok(Self { raft: raft.to_owned(), client: client.to_owned() })
    }
}

/// The parts of `HOST:PORT`; brackets around an IPv6 address are gone.
pub(crate) fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse::<u16>().ok().filter(|&port| digits && port > 0)?;
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').filter(|host| host.contains(':'))?,
        None => Some(host).filter(|host| !host.contains(':'))?,
    };
    let strange = |c: char| c.is_whitespace() || c.is_control() || "/[]".contains(c);
    (!host.is_empty() && !host.contains(strange)).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_members() {
        for text in ["127.0.0.1:7001/127.0.0.1:6379", "a.b:1/[::1]:65535", "[fe80::1%eth0]:2/c:3"] {
            let member: Member = text.parse().expect(text);
            assert_eq!(member.to_string(), text);
        }
        let (host, port) = host_and_port("[::1]:9").expect("sound");
        assert_eq!((host, port), ("::1", 9));
        for text in [
            "",
            "/",
            "a:1",
            "a:1/",
            "/a:1",
            "a/b",
            "a:0/b:1",
            "a:1/b:65536",
            "a:+1/b:1",
            ":1/b:1",
            "a:1/b:1/c:1",
            "::1:1/b:1",
            "[a]:1/b:1",
            "[::1:1/b:1",
            "a b:1/c:1",
            "a:1/b:1 ",
        ] {
            let error = text.parse::<Member>().expect_err(text);
            assert!(error.to_string().contains("HOST:PORT/HOST:PORT"), "{error}");
        }
    }
}
