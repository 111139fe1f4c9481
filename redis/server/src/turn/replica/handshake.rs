//! The handshake of a replica with its primary: one question at a time.

use super::follower::Follower;
use crate::Config;
use crate::peers::replication::failure::Failure;
use crate::peers::replication::link::{Link, Question, Step};
use crate::state::ServerState;
use crate::state::roles::abort_failover;

/// Longest line of a reply, in bytes.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Sends a question to the primary.
pub(super) fn ask(question: Question, link: &mut Link, state: &ServerState) {
    let settings = &state.config.replication;
    let (plain, tls) = state.net.ports();
    let own = if state.config.tls.replication { tls } else { plain };
    let port = if settings.announce_port > 0 { settings.announce_port } else { own };
    let port = port.to_string();
    let (id, next);
    let words: Vec<&[u8]> = match question {
        Question::Ping => vec![b"PING"],
        Question::Auth if settings.user.is_empty() => vec![b"AUTH", settings.password.as_bytes()],
        Question::Auth => vec![b"AUTH", settings.user.as_bytes(), settings.password.as_bytes()],
        Question::Port => vec![b"REPLCONF", b"listening-port", port.as_bytes()],
        Question::Address => {
            vec![b"REPLCONF", b"ip-address", settings.announce_ip.as_bytes()]
        }
        Question::Abilities => {
            vec![b"REPLCONF", b"capa", b"eof", b"capa", b"psync2", b"capa", b"branches"]
        }
        // Valkey 9 writes files of its own version only for replicas that announce one.
        Question::Version => vec![b"REPLCONF", b"version", b"9.0.0"],
        Question::Psync => {
            let lost = state.replication.following.as_ref().is_none_or(|it| it.lost);
            if lost || !state.replication.is_active() {
                vec![b"PSYNC", b"?", b"-1"]
            } else {
                id = state.replication.name.id.clone();
                next = (state.replication.stream.end() + 1).to_string();
                let mut words: Vec<&[u8]> = vec![b"PSYNC", id.as_bytes(), next.as_bytes()];
                if state.replication.failover.is_some() {
                    words.push(b"FAILOVER");
                }
                words
            }
        }
    };
    stillframe_commands::write_request(&mut link.output, &words);
    link.step = Step::Asked(question);
}

impl Question {
    /// The question after this one.
    fn next(self, config: &Config) -> Self {
        let settings = &config.replication;
        match self {
            Self::Ping if !settings.password.is_empty() => Self::Auth,
            Self::Ping | Self::Auth => Self::Port,
            Self::Port if !settings.announce_ip.is_empty() => Self::Address,
            Self::Port | Self::Address => Self::Abilities,
            Self::Abilities => Self::Version,
            Self::Version | Self::Psync => Self::Psync,
        }
    }
}

/// Takes the next line that is not empty; an empty one only shows that the primary is alive.
pub(super) fn line(link: &mut Link) -> Result<Option<String>, Failure> {
    loop {
        let Some(end) = link.input.iter().position(|&byte| byte == b'\n') else {
            if link.input.len() > LINE_BYTES_MAX {
                return Err(Failure::NoLine);
            }
            return Ok(None);
        };
        let text: Vec<u8> = link.input.drain(..=end).collect();
        let text = String::from_utf8_lossy(&text).trim_end().to_owned();
        if !text.is_empty() {
            return Ok(Some(text));
        }
    }
}

impl Follower<'_> {
    /// Processes the reply to the last question, if it has come, and sends the next.
    pub(super) fn answered(&mut self, link: &mut Link) -> Result<(), Failure> {
        let Step::Asked(question) = link.step else { return Ok(()) };
        let Some(answer) = line(link)? else { return Ok(()) };
        match question {
            Question::Ping => {
                let auth_required = ["-NOAUTH", "-NOPERM", "-ERR operation not permitted"];
                if !answer.starts_with('+')
                    && !auth_required.iter().any(|it| answer.starts_with(it))
                {
                    return Err(Failure::Refused { answer });
                }
            }
            Question::Auth if answer.starts_with('-') => {
                return Err(Failure::Stranger { answer });
            }
            Question::Psync => return self.psynced(link, &answer),
            // A primary that does not know REPLCONF may refuse the question.
            Question::Auth
            | Question::Port
            | Question::Address
            | Question::Abilities
            | Question::Version => {}
        }
        ask(question.next(&self.state.config), link, self.state);
        Ok(())
    }

    fn psynced(&mut self, link: &mut Link, answer: &str) -> Result<(), Failure> {
        let words: Vec<&str> = answer.split_whitespace().collect();
        let replication = &mut self.state.replication;
        match words[..] {
            ["+FULLRESYNC", id, offset] => {
                let Some(offset) = offset.parse().ok().filter(|_| id.len() == 40) else {
                    return Err(Failure::Unknown { answer: answer.to_owned() });
                };
                replication.failover = None;
                tracing::info!("the primary sends an image, at offset {offset}");
                replication.announced = Some((id.to_owned(), offset));
                link.step = Step::Announced;
            }
            ["+CONTINUE", ref id @ ..] => {
                replication.failover = None;
                let offset = replication.stream.end();
                tracing::info!("the primary goes on from offset {offset}");
                let new = id.first().filter(|id| id.len() == 40 && **id != replication.name.id);
                if let Some(id) = new {
                    replication.rename((*id).to_owned());
                    self.state.replication.drop_replicas(&mut self.state.clients);
                }
                let db = self.state.replication.db;
                if let Some(following) = &mut self.state.replication.following {
                    following.connected(link, db);
                }
                link.acknowledge(offset, None, self.state.clock.turn());
            }
            _ => {
                let why = format!("Failover target rejected psync request: {answer}");
                abort_failover(self.keyspace, self.state, &why);
                return Err(Failure::NotNow { answer: answer.to_owned() });
            }
        }
        Ok(())
    }
}
