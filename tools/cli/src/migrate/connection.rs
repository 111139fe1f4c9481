//! Connections to servers, as a client.

use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use stillframe_commands::write_request;
use stillframe_resp::{Replies, Reply};
use stillframe_tls::ClientConfig;

use super::stream::{Stream, connect};
use super::topology::Address;

/// Longest wait for a reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes read at once.
pub(super) const READ_BYTES: usize = 64 << 10;

/// Who asks, and how.
#[derive(Debug, Clone, Default)]
pub(super) struct Login {
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    /// What TLS needs, if the server is asked over TLS.
    pub(super) tls: Option<Arc<ClientConfig>>,
}

impl Login {
    /// The request that logs in, if there is a password.
    pub(super) fn request(&self) -> Option<Vec<&[u8]>> {
        let password = self.password.as_ref()?.as_bytes();
        Some(match &self.user {
            None => vec![b"AUTH", password],
            Some(user) => vec![b"AUTH", user.as_bytes(), password],
        })
    }
}

/// A reply that is no error.
#[derive(Debug)]
pub(super) enum Answer {
    Text(Vec<u8>),
    Number(i64),
    List(Vec<Answer>),
    Nothing,
}

impl Answer {
    fn from_reply(reply: &Reply<'_>) -> Result<Self, String> {
        Ok(match reply {
            Reply::Simple(text) | Reply::Bulk(text) => Self::Text(text.to_vec()),
            Reply::Integer(number) => Self::Number(*number),
            Reply::Array(all) => {
                Self::List(all.iter().map(Self::from_reply).collect::<Result<_, _>>()?)
            }
            Reply::Error(text) => return Err(String::from_utf8_lossy(text).into_owned()),
            _ => Self::Nothing,
        })
    }

    /// Its text, if it is one.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Text(text) => String::from_utf8_lossy(text).into_owned(),
            Self::Number(number) => number.to_string(),
            _ => String::new(),
        }
    }

    /// Its elements, if it is a list.
    pub(super) fn list(&self) -> &[Answer] {
        if let Self::List(all) = self { all } else { &[] }
    }
}

/// A connection on which one request after the other is answered.
pub(super) struct Connection {
    address: Address,
    stream: Stream,
    replies: Replies,
}

impl Connection {
    /// Connects and logs in.
    pub(super) fn open(address: &Address, login: &Login) -> Result<Self, String> {
        let stream = connect(address, login.tls.as_ref())
            .map_err(|error| format!("cannot reach {address}: {error}"))?;
        let socket = stream.socket();
        let prepared = socket.set_read_timeout(Some(REPLY_TIMEOUT));
        prepared
            .and_then(|()| socket.set_write_timeout(Some(REPLY_TIMEOUT)))
            .map_err(|error| format!("{address}: {error}"))?;
        let (address, replies) = (address.clone(), Replies::default());
        let mut connection = Self { address, stream, replies };
        if let Some(words) = login.request() {
            connection.ask(&words)?;
        }
        Ok(connection)
    }

    /// Asks, and waits for the reply. An error that the server replies is one of this method.
    pub(super) fn ask(&mut self, words: &[&[u8]]) -> Result<Answer, String> {
        let mut request = Vec::new();
        write_request(&mut request, words);
        let address = &self.address;
        let failed = |error: io::Error| format!("{address} does not answer: {error}");
        self.stream.write_all(&request).map_err(failed)?;
        while !self.replies.has_one() {
            let mut piece = [0; READ_BYTES];
            let read = match self.stream.read(&mut piece) {
                Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
                other => other,
            };
            self.replies.input().extend_from_slice(&piece[..read.map_err(failed)?]);
        }
        let answer = self.replies.take(|reply| Answer::from_reply(&reply));
        let answer = answer.map_err(|error| format!("{address}: {error}"))?;
        let answer = answer.unwrap_or(Ok(Answer::Nothing));
        answer.map_err(|error| format!("{address} refuses {}: {error}", shown(words)))
    }

    /// Asks in words that have no blanks.
    pub(super) fn ask_line(&mut self, line: &str) -> Result<Answer, String> {
        self.ask(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    /// The fields of a section of INFO.
    pub(super) fn info(&mut self, section: &str) -> Result<Info, String> {
        Ok(Info(self.ask_line(&format!("INFO {section}"))?.text()))
    }

    /// The address of this end.
    pub(super) fn local(&self) -> io::Result<IpAddr> {
        self.stream.socket().local_addr().map(|it| it.ip())
    }

    /// The address of the other end.
    pub(super) fn peer(&self) -> io::Result<IpAddr> {
        self.stream.socket().peer_addr().map(|it| it.ip())
    }
}

/// The reply to INFO.
pub(super) struct Info(String);

impl Info {
    /// The field of that name.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let value = |line: &'_ str| line.strip_prefix(name)?.strip_prefix(':').map(str::len);
        let line = self.0.lines().find(|line| value(line).is_some())?;
        line.get(name.len() + 1..).map(str::trim)
    }

    /// The number in the field of that name; 0 if there is none.
    pub(super) fn number(&self, name: &str) -> u64 {
        self.field(name).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// Keys in all databases.
    pub(super) fn keys(&self) -> u64 {
        let keys = |line: &str| {
            let (_, rest) = line.strip_prefix("db")?.split_once(":keys=")?;
            rest.split(',').next()?.parse::<u64>().ok()
        };
        self.0.lines().filter_map(keys).sum()
    }
}

/// The name of a request, without what it may hold of secrets.
fn shown(words: &[&[u8]]) -> String {
    let count = if words[0].eq_ignore_ascii_case(b"AUTH") { 1 } else { 2 };
    let names: Vec<_> = words.iter().take(count).map(|it| it.escape_ascii().to_string()).collect();
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_info_are_found_by_their_whole_names() {
        let info = Info(
            "# Keyspace\r\nrole_x:1\r\nrole:master\r\ndb0:keys=7,expires=1\r\ndb11:keys=2\r\n"
                .into(),
        );
        assert_eq!([info.field("role"), info.field("rol")], [Some("master"), None]);
        assert_eq!(info.keys(), 9);
    }
}
