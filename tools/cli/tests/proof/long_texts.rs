//! Long texts, which replies contain by reference until they are written: whatever becomes of a key
//! behind a GET in the pipeline, the reply shows what the key held then.

use std::collections::HashMap;
use std::thread;

use crate::support::{Client, Kind, Random, Server, Setup, limit_file_size, rounds};
use stillframe_peers::reply::encode;

/// Around the length from which a text is a piece of memory of its own, and beyond what a socket
/// takes at once.
const LENGTHS: [usize; 7] = [0, 10, 4096, 4097, 20_000, 70_000, 1_500_000];
const KEYS: usize = 4;

/// The texts of a client's keys, as they must be.
struct Model {
    name: usize,
    texts: HashMap<Vec<u8>, Vec<u8>>,
}

impl Model {
    fn key(&self, random: &mut Random) -> Vec<u8> {
        format!("{}:{}", self.name, random.below(KEYS)).into_bytes()
    }

    fn bulk(&self, key: &[u8]) -> Vec<u8> {
        let Some(text) = self.texts.get(key) else { return b"$-1\r\n".to_vec() };
        [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat()
    }

    /// Adds a random request, or a few that belong together, to `requests` and what comes back to
    /// `replies`.
    fn step(&mut self, random: &mut Random, requests: &mut Vec<u8>, replies: &mut Vec<u8>) {
        let key = self.key(random);
        let mut ask = |words: &[&[u8]]| encode(words, requests);
        match random.below(16) {
            0..7 => {
                ask(&[b"get", &key]);
                replies.extend(self.bulk(&key));
            }
            7 => {
                let text = text(random);
                ask(&[b"SET", &key, &text]);
                replies.extend(b"+OK\r\n");
                self.texts.insert(key, text);
            }
            8 => {
                let text = text(random);
                ask(&[b"SET", &key, &text, b"GET"]);
                replies.extend(self.bulk(&key));
                self.texts.insert(key, text);
            }
            9 => {
                ask(&[b"APPEND", &key, b"more"]);
                let text = self.texts.entry(key).or_default();
                text.extend(b"more");
                replies.extend(format!(":{}\r\n", text.len()).into_bytes());
            }
            10 => {
                ask(&[b"SETRANGE", &key, b"3", b"patch"]);
                let text = self.texts.entry(key).or_default();
                text.resize(text.len().max(8), 0);
                text[3..8].copy_from_slice(b"patch");
                replies.extend(format!(":{}\r\n", text.len()).into_bytes());
            }
            11 => {
                ask(&[b"GETDEL", &key]);
                replies.extend(self.bulk(&key));
                self.texts.remove(&key);
            }
            12 => {
                for words in [&[&b"MULTI"[..]][..], &[b"GET", &key], &[b"GET", &key], &[b"EXEC"]] {
                    ask(words);
                }
                replies.extend(b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n");
                replies.extend(self.bulk(&key));
                replies.extend(self.bulk(&key));
            }
            13 => {
                ask(&[b"EVAL", b"return redis.call('GET', KEYS[1])", b"1", &key]);
                replies.extend(self.bulk(&key));
            }
            14 => {
                ask(&[b"CLIENT", b"REPLY", b"SKIP"]);
                ask(&[b"GET", &key]);
            }
            _ => {
                ask(&[b"GET", &key, b"one too many"]);
                replies.extend(b"-ERR wrong number of arguments for 'get' command\r\n");
            }
        }
    }
}

fn text(random: &mut Random) -> Vec<u8> {
    let (byte, length) = (b'a' + random.below(26) as u8, random.pick(&LENGTHS));
    vec![byte; length]
}

/// Sends pipelines and compares what comes back byte for byte.
fn run(mut client: Client, name: usize, mut random: Random) {
    let mut model = Model { name, texts: HashMap::new() };
    for _ in 0..rounds(12, 200) {
        let (mut requests, mut replies) = (Vec::new(), Vec::new());
        for _ in 0..random.below(60) {
            model.step(&mut random, &mut requests, &mut replies);
        }
        // All of it before a reply is read: the socket fills, and the rest waits in the server.
        assert!(client.send_raw(&requests));
        let mut came = Vec::new();
        while came.len() < replies.len() {
            came.extend(client.receive_raw().expect("the server keeps the connection"));
        }
        let differs = came.iter().zip(&replies).position(|(a, b)| a != b);
        assert!(came == replies, "{} and {} bytes, {differs:?}", came.len(), replies.len());
    }
}

fn run_several(server: &Server, connect: impl Fn() -> Client) {
    let mut random = Random::new("long_texts");
    thread::scope(|scope| {
        for name in 0..3 {
            let (client, random) = (connect(), Random::with_seed(random.next()));
            scope.spawn(move || run(client, name, random));
        }
        let mut admin = server.client();
        for _ in 0..rounds(5, 50) {
            admin.ask("BGSAVE"); // an image holds texts, too
            admin.wait_for_save();
        }
    });
}

#[test]
fn pipelines_of_long_texts_reply_what_keys_held() {
    let flags: [&[&str]; 5] = [
        &[],
        &["--appendonly", "yes", "--appendfsync", "always"],
        &["--appendonly", "yes", "--appendfsync", "everysec"],
        &["--io-threads", "3"],
        &["--notify-keyspace-events", "KEAm"],
    ];
    for flags in flags {
        let server = Setup::new(Kind::subject("imprint")).flags(flags).start();
        run_several(&server, || server.client());
    }
}

#[test]
fn a_unix_socket_carries_long_texts() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let flags = ["--unixsocket", &path.display().to_string()];
    let server = Setup::new(Kind::subject("imprint")).flags(&flags).start();
    run_several(&server, || Client::unix(&path));
}

/// What tracks keys is told of changes between the replies, not before them.
#[test]
fn a_tracking_client_gets_long_texts_and_messages_in_order() {
    let server = Server::start(Kind::subject("imprint"));
    let (mut client, mut other) = (server.client(), server.client());
    let text = "x".repeat(100_000);
    other.ok(&format!("SET k {text}"));
    client.ok("HELLO 3");
    client.ok("CLIENT TRACKING on");
    for _ in 0..20 {
        let get = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n".repeat(20);
        assert!(client.send_raw(&get));
        for _ in 0..20 {
            assert_eq!(client.reply().text(), text);
        }
        other.ok(&format!("SET k {text}"));
        assert!(client.raw().starts_with(b">2\r\n$10\r\ninvalidate\r\n"));
    }
}

/// A text that the log has not is shown to nobody, although it would go out sooner than others.
#[test]
fn a_text_that_the_log_refuses_is_not_shown() {
    let flags = ["--appendonly", "yes", "--appendfsync", "always"];
    let server = Setup::new(Kind::Ours("imprint")).outlives_file_limits().flags(&flags).start();
    let mut client = server.client();
    client.ok(&format!("SET k {}", "a".repeat(10_000)));
    limit_file_size(server.pid(), Some(1));
    let set = [b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5000\r\n", &[b'b'; 5000][..], b"\r\n"].concat();
    let get = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
    assert!(client.send_raw(&[&set[..], get].concat()));
    let mut came = Vec::new();
    while let Some(bytes) = client.receive_raw() {
        came.extend(bytes);
    }
    let came = String::from_utf8_lossy(&came);
    // A path in the error has a `b` now and then.
    assert!(came.starts_with("-MISCONF") && !came.contains("bbbb"), "{came}");
}
