//! Transcripts of redis-server and its kin, played by the commands alone. The proofs of the binary
//! have redis-server play them, too.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;

use stillframe_peers::transcript::{Stage, Transcript};

use crate::harness::Harness;

/// Plays every transcript of a folder, each from nothing; `is_done`: nothing is left to be read.
fn prove<S: Stage>(folder: &str, at_least: usize, open: fn() -> S, is_done: fn(&S) -> bool) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/command/tests").join(folder);
    let (mut wrong, mut replies) = (Vec::new(), 0);
    for file in fs::read_dir(folder).expect("a folder of transcripts") {
        let path = file.expect("a file").path();
        let transcript = Transcript::parse(fs::read_to_string(&path).expect("a transcript"));
        replies += transcript.replies();
        let mut stage = open();
        let different = transcript.differences(&mut stage);
        wrong.extend(different.iter().map(|it| format!("{}: {it}", path.display())));
        assert!(!different.is_empty() || is_done(&stage), "{}: more is said", path.display());
    }
    assert!(wrong.is_empty(), "{} of {replies} replies differ:\n{}", wrong.len(), wrong.join("\n"));
    assert!(replies >= at_least, "{replies} replies are few");
}

#[test]
fn replies_are_those_of_redis() {
    prove("transcripts", 1_600, Harness::new, |_| true);
}

/// What redis-server 7.0 does not have: a file by the server that gave the replies, for
/// `newest*.txt` Redis 8.10.
#[test]
fn replies_are_those_of_newer_servers() {
    prove("newer", 150, Harness::new, |_| true);
}

/// A client `a`, and another, `l`, that listens to all events of keys. What a third one and the
/// listener ask is taken for done.
struct Listening {
    harness: Harness,
    heard: VecDeque<Vec<u8>>,
}

impl Stage for Listening {
    fn wait(&mut self, milliseconds: u64) {
        self.harness.wait(milliseconds);
        self.collect_events();
    }

    fn send(&mut self, connection: char, arguments: &[&[u8]]) {
        match connection {
            'a' => {
                self.harness.send(connection, arguments);
                self.collect_events();
            }
            'l' => self.heard.push_back(b"*".to_vec()),
            _ => {}
        }
    }

    fn receive(&mut self, connection: char) -> Option<Vec<u8>> {
        match connection {
            'a' => self.harness.receive(connection),
            'l' => Some(self.heard.pop_front().unwrap_or_else(|| b"nothing".to_vec())),
            _ => Some(b"+OK\r\n".to_vec()),
        }
    }
}

impl Listening {
    /// Each event, as the message that subscribers of `__keyevent*` get.
    fn collect_events(&mut self) {
        for event in self.harness.events() {
            let (event, key) = event.split_once(' ').expect("an event and a key");
            let (db, key) = key.split_once(':').expect("a database and a key");
            let channel = format!("__keyevent@{db}__:{event}");
            let words = ["pmessage", "__keyevent*", &channel, key];
            let words = words.map(|word| format!("${}\r\n{word}\r\n", word.len()));
            self.heard.push_back(format!("*4\r\n{}", words.concat()).into_bytes());
        }
    }
}

/// The events of commands on keys, in their order, and nothing more.
#[test]
fn events_are_those_of_redis() {
    let open = || Listening { harness: Harness::new().notifies("KEAmn"), heard: VecDeque::new() };
    prove("notifications", 1_200, open, |stage| stage.heard.is_empty());
}
