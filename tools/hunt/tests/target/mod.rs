//! A small server that knows the workload's commands, INFO and PSYNC, and breaks one promise.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use stillframe_hunt::{Content, Contents, apply};
use stillframe_resp::{Limits, Parser};

/// What the server does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Reads half of the keys, lets writers go on, and reads the other half.
    Torn,
    /// Sends the image before, rightly labelled.
    Stale,
    /// Leaves out a key.
    Missing,
    /// The image is newer than its label.
    LabelledEarly,
    /// The image is older than its label.
    LabelledLate,
    /// The label is one byte off.
    LabelledBytes,
    /// The image has another offset than its announcement.
    LabelledInside,
    /// The image has another replication id than its announcement.
    LabelledForeign,
    /// The image ends early.
    Damaged,
    /// Has no full syncs.
    Refuses,
    /// Announces nonsense.
    Announces,
    /// Closes half way through an image.
    Closes,
}

#[derive(Default)]
struct State {
    contents: Contents,
    /// All that replicas get, from offset 0.
    stream: Vec<u8>,
    before: Option<(Contents, usize)>,
}

pub(crate) struct Target {
    state: Arc<Mutex<State>>,
    address: String,
}

type Words = Vec<Vec<u8>>;

const ID: &str = "0123456789012345678901234567890123456789";

impl Target {
    /// Its threads end with their connections, and the process.
    pub(crate) fn start(fault: Fault) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let client = Client { state: Arc::clone(&shared), fault, stream, db: 0 };
                thread::spawn(move || client.serve());
            }
        });
        Self { state, address }
    }

    pub(crate) fn address(&self) -> String {
        self.address.clone()
    }

    pub(crate) fn keys(&self) -> usize {
        self.state.lock().expect("no panic").contents.len()
    }
}

struct Client {
    state: Arc<Mutex<State>>,
    fault: Fault,
    stream: TcpStream,
    db: u64,
}

impl Client {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }

    fn serve(mut self) {
        let (mut input, mut scratch) = (Vec::new(), vec![0; 1 << 16]);
        let mut parser = Parser::new(Limits::OPEN);
        let mut queue: Option<Vec<Words>> = None;
        while let Ok(count @ 1..) = self.stream.read(&mut scratch) {
            input.extend_from_slice(&scratch[..count]);
            let mut replies = Vec::new();
            while let Some(used) = parser.parse(&mut input).expect("a request") {
                let words: Words =
                    parser.args().iter().map(|range| input[range.clone()].to_vec()).collect();
                input.drain(..used);
                match (words[0].as_slice(), &mut queue) {
                    (b"PSYNC", _) => return self.replicate(),
                    (b"MULTI", _) => {
                        queue = Some(Vec::new());
                        replies.extend_from_slice(b"+OK\r\n");
                    }
                    (b"EXEC", Some(requests)) => {
                        let requests = std::mem::take(requests);
                        replies.extend(format!("*{}\r\n", requests.len()).bytes());
                        requests.iter().for_each(|_| replies.extend_from_slice(b"+OK\r\n"));
                        self.execute(&requests, true);
                        queue = None;
                    }
                    (_, Some(requests)) => {
                        requests.push(words);
                        replies.extend_from_slice(b"+QUEUED\r\n");
                    }
                    (b"INFO", _) => {
                        let offset = self.lock().stream.len();
                        let info = format!("redis_version:0\r\nmaster_repl_offset:{offset}\r\n");
                        replies.extend(format!("${}\r\n{info}\r\n", info.len()).bytes());
                    }
                    (b"PING" | b"REPLCONF", _) => replies.extend_from_slice(b"+OK\r\n"),
                    (_, None) => {
                        self.execute(&[words], false);
                        replies.extend_from_slice(b"+OK\r\n");
                    }
                }
            }
            if self.stream.write_all(&replies).is_err() {
                return;
            }
        }
    }

    /// Runs requests at once, and writes them to the stream.
    fn execute(&mut self, requests: &[Words], is_transaction: bool) {
        let mut db = self.db;
        let mut state = self.state.lock().expect("no panic");
        let State { contents, stream, .. } = &mut *state;
        encode(&[b"SELECT".to_vec(), db.to_string().into_bytes()], stream);
        if is_transaction {
            encode(&[b"MULTI".to_vec()], stream);
        }
        for request in requests {
            let words: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
            apply(contents, &mut db, &words).expect("a known request");
            encode(request, stream);
        }
        if is_transaction {
            encode(&[b"EXEC".to_vec()], stream);
        }
        drop(state);
        self.db = db;
    }

    /// Waits until writers have written something.
    fn let_write(&self) {
        let before = self.lock().stream.len();
        while self.lock().stream.len() < before + 4096 {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// The image's contents, its label, and where its stream begins.
    fn image(&self) -> (Contents, usize, usize) {
        let now = || {
            let state = self.lock();
            (state.contents.clone(), state.stream.len())
        };
        let (contents, at) = now();
        match self.fault {
            Fault::Torn => {
                self.let_write();
                let (later, at) = now();
                let half = contents.len() / 2;
                let early = contents.into_iter().take(half);
                let whole = later.into_iter().chain(early).collect();
                (whole, at, at)
            }
            Fault::Stale => {
                let previous = self.lock().before.replace((contents.clone(), at));
                let (contents, at) = previous.unwrap_or((contents, at));
                (contents, at, at)
            }
            Fault::Missing => {
                let is_dropped = |name: &[u8]| name.ends_with(b":string:3");
                let contents =
                    contents.into_iter().filter(|((_, name), _)| !is_dropped(name)).collect();
                (contents, at, at)
            }
            Fault::LabelledEarly => {
                self.let_write();
                (now().0, at, at)
            }
            Fault::LabelledLate => {
                self.let_write();
                let later = now().1;
                (contents, later, later)
            }
            Fault::LabelledBytes => (contents, at + 1, at),
            _ => (contents, at, at),
        }
    }

    fn replicate(mut self) {
        let (contents, label, mut at) = self.image();
        let (id, inside) = match self.fault {
            Fault::LabelledInside => (ID, label + 14),
            Fault::LabelledForeign => ("another", label),
            _ => (ID, label),
        };
        let mut image = rdb(&contents, id, inside);
        let mut head = format!("+FULLRESYNC {ID} {label}\r\n\n\n${}\r\n", image.len());
        match self.fault {
            Fault::Refuses => (head, image) = ("-ERR no replicas here\r\n".into(), Vec::new()),
            Fault::Announces => head = format!("+FULLRESYNC {ID} {label}\r\n$-7\r\n"),
            Fault::Closes => image.truncate(image.len() / 2),
            Fault::Damaged => {
                image.truncate(image.len() / 2);
                head = format!("+FULLRESYNC {ID} {label}\r\n${}\r\n", image.len());
            }
            _ => {}
        }
        let sent = self.stream.write_all(&[head.into_bytes(), image].concat());
        if sent.is_err() || self.fault == Fault::Closes {
            return;
        }
        let _ = self.stream.set_read_timeout(Some(Duration::from_millis(1)));
        loop {
            let more = self.lock().stream[at..].to_vec();
            at += more.len();
            let is_closed = matches!(self.stream.read(&mut [0; 1024]), Ok(0));
            if is_closed || self.stream.write_all(&more).is_err() {
                return;
            }
        }
    }
}

fn encode(words: &[Vec<u8>], bytes: &mut Vec<u8>) {
    bytes.extend(format!("*{}\r\n", words.len()).bytes());
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
}

/// An image in the plainest encodings, its checksum off.
fn rdb(contents: &Contents, id: &str, offset: usize) -> Vec<u8> {
    fn length(bytes: &mut Vec<u8>, length: usize) {
        bytes.push(0x80);
        bytes.extend_from_slice(&u32::try_from(length).expect("a short one").to_be_bytes());
    }
    fn text(bytes: &mut Vec<u8>, text: &[u8]) {
        length(bytes, text.len());
        bytes.extend_from_slice(text);
    }
    let mut bytes = b"REDIS0010".to_vec();
    bytes.push(0xfa);
    text(&mut bytes, b"repl-id");
    text(&mut bytes, id.as_bytes());
    bytes.push(0xfa);
    text(&mut bytes, b"repl-offset");
    // A 32-bit integer, as text of digits has it.
    bytes.push(0xc2);
    bytes.extend_from_slice(&i32::try_from(offset).expect("a short stream").to_le_bytes());
    for ((db, name), content) in contents {
        bytes.push(0xfe);
        length(&mut bytes, usize::try_from(*db).expect("a database"));
        let kind = match content {
            Content::Text(_) => 0,
            Content::List(_) => 1,
            Content::Set(_) => 2,
            Content::Hash(_) => 4,
            Content::Sorted(_) => 5,
        };
        bytes.push(kind);
        text(&mut bytes, name);
        match content {
            Content::Text(value) => text(&mut bytes, value),
            Content::List(list) => {
                length(&mut bytes, list.len());
                list.iter().for_each(|one| text(&mut bytes, one));
            }
            Content::Set(set) => {
                length(&mut bytes, set.len());
                set.iter().for_each(|one| text(&mut bytes, one));
            }
            Content::Hash(hash) => {
                length(&mut bytes, hash.len());
                for (field, value) in hash {
                    text(&mut bytes, field);
                    text(&mut bytes, value);
                }
            }
            Content::Sorted(sorted) => {
                length(&mut bytes, sorted.len());
                for (member, score) in sorted {
                    text(&mut bytes, member);
                    bytes.extend_from_slice(&score.to_le_bytes());
                }
            }
        }
    }
    bytes.push(0xff);
    bytes.extend_from_slice(&[0; 8]);
    bytes
}
