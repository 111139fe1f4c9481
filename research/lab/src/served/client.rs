//! A blocking client: one request, one reply.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Error, Result, bail};
use stillframe_measure::target;
use stillframe_resp::{Reply, decode_reply};

/// Longest wait for a reply: a server may be busy for long, but not for ever.
const PATIENCE: Duration = Duration::from_secs(120);

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Client {
    /// To a server on this machine.
    pub(super) fn local(port: u16) -> Result<Self> {
        Self::connect(&format!("127.0.0.1:{port}"))
    }

    /// To a server of that `HOST:PORT`.
    pub(crate) fn connect(target: &str) -> Result<Self> {
        target::host(target).map_err(Error::msg)?;
        let connected = target.to_socket_addrs().and_then(target::connect).and_then(|stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            Ok(stream)
        });
        let stream = connected.with_context(|| format!("connecting to {target}"))?;
        Ok(Self { stream, input: Vec::new() })
    }

    /// The text of a reply; empty if it has none.
    pub(crate) fn call(&mut self, words: &[&str]) -> Result<String> {
        let mut request = Vec::new();
        encode(words, &mut request);
        let mut answer = String::new();
        self.ask(&request, 1, |reply| answer = text(reply))?;
        Ok(answer)
    }

    /// Sends encoded requests, and looks at each of `count` replies. Errors of the server end it.
    pub(super) fn ask(
        &mut self,
        requests: &[u8],
        count: usize,
        mut look: impl FnMut(&Reply<'_>),
    ) -> Result<()> {
        const LOST: &str = "the connection to the server broke";
        self.stream.write_all(requests).context(LOST)?;
        let (mut left, mut scratch) = (count, [0; 16 << 10]);
        let deadline = Instant::now() + PATIENCE;
        while left > 0 {
            let reply = decode_reply(&self.input)?;
            if let Some((reply, used)) = reply {
                if let Reply::Error(error) = reply {
                    bail!("the server refused: {}", String::from_utf8_lossy(error));
                }
                look(&reply);
                self.input.drain(..used);
                left -= 1;
                continue;
            }
            match self.stream.read(&mut scratch).context(LOST)? {
                0 => bail!("the server closed the connection"),
                count => self.input.extend_from_slice(&scratch[..count]),
            }
            if Instant::now() > deadline {
                bail!("no reply for {} s", PATIENCE.as_secs());
            }
        }
        Ok(())
    }
}

/// Appends a request.
pub(super) fn encode(words: &[&str], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
}

fn text(reply: &Reply<'_>) -> String {
    match reply {
        Reply::Simple(text) | Reply::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
        Reply::Integer(number) => number.to_string(),
        _ => String::new(),
    }
}
