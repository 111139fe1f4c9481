//! The target's side: this program as the primary that the target follows.
//!
//! - The target gets an empty image, and then the stream of [`Feed`](super::feed::Feed).
//! - Only the target's machine is let in. The newest connection counts.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Scope;
use std::time::Duration;

use stillframe_rdb::{Encoder, Origin};
use stillframe_resp::{Limits, Parser};

use super::Shared;
use super::connection::{Connection, Info, READ_BYTES};
use super::stream::{Output, Stream};

/// Bytes of the stream written at once.
const PIECE_BYTES: usize = 256 << 10;
/// Longest wait for an event, between two looks at what is wished.
const TICK: Duration = Duration::from_millis(100);

/// Serves the target until all ends.
pub(super) fn serve<'s>(
    scope: &'s Scope<'s, '_>,
    listener: &TcpListener,
    from: IpAddr,
    shared: &'s Shared,
) {
    let newest = Arc::new(AtomicU64::new(0));
    while !shared.is_over() {
        match listener.accept() {
            Ok((stream, peer)) if peer.ip() == from => {
                let number = newest.fetch_add(1, Ordering::SeqCst) + 1;
                let turn = Turn { number, newest: Arc::clone(&newest) };
                scope.spawn(move || attend(scope, stream, &turn, shared));
            }
            Ok((_, peer)) => tracing::warn!("{peer} may not connect: only the target may"),
            Err(_) => std::thread::sleep(TICK / 5),
        }
    }
}

/// Which connection of the target this is.
#[derive(Clone)]
struct Turn {
    number: u64,
    newest: Arc<AtomicU64>,
}

impl Turn {
    fn is_over(&self, shared: &Shared) -> bool {
        self.newest.load(Ordering::SeqCst) != self.number || shared.is_over()
    }
}

/// Reads what the target says on a connection.
fn attend<'s>(scope: &'s Scope<'s, '_>, socket: TcpStream, turn: &Turn, shared: &'s Shared) {
    let prepared = Stream::accept(socket, shared.follower.as_ref()).and_then(|stream| {
        stream.socket().set_read_timeout(Some(TICK))?;
        stream.socket().set_write_timeout(Some(shared.timeout))?;
        let output = stream.output()?;
        Ok((stream, output))
    });
    let (mut stream, mut own) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return tracing::warn!("the target cannot follow: {error}"),
    };
    let (mut parser, mut input) = (Parser::new(Limits::OPEN), Vec::new());
    let mut follows = false;
    while !(turn.is_over(shared) || follows && shared.feed.is_stale()) {
        let mut piece = [0; READ_BYTES];
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => input.extend_from_slice(&piece[..count]),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => continue,
                _ => break,
            },
        }
        // A target that loads sends empty lines.
        shared.feed.note_reply(None);
        while let Ok(Some(used)) = parser.parse(&mut input) {
            let args: Vec<Vec<u8>> =
                parser.args().iter().map(|range| input[range.clone()].to_vec()).collect();
            input.drain(..used);
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            if follows {
                shared.feed.note_reply(applied(&args));
                continue;
            }
            let cursor = cursor(&args, shared);
            if stream.write_all(&answer(&args, cursor, shared)).is_err() {
                return;
            }
            if let Some(Cursor { offset, .. }) = cursor {
                let Ok(output) = stream.output() else { return };
                let turn = turn.clone();
                follows = true;
                scope.spawn(move || feed(output, offset, &turn, shared));
            }
        }
    }
    own.shutdown(); // the other thread may wait for this socket
}

/// Where the target's stream begins.
#[derive(Clone, Copy)]
struct Cursor {
    offset: u64,
    resumes: bool,
}

/// From where on a request wants the stream, if it does.
fn cursor(args: &[&[u8]], shared: &Shared) -> Option<Cursor> {
    let [name, id, next, ..] = args else { return None };
    if !name.eq_ignore_ascii_case(b"psync") {
        return None;
    }
    let next = std::str::from_utf8(next).ok().and_then(|text| text.parse::<u64>().ok());
    let has = next.and_then(|next| next.checked_sub(1));
    let has = has.filter(|&has| *id == shared.id.as_bytes() && shared.feed.continues(has));
    Some(match has {
        Some(offset) => Cursor { offset, resumes: true },
        None => {
            if shared.feed.round() > 0 {
                tracing::warn!("the target asks for all data again: every primary starts anew");
                let target = Connection::open(&shared.to, &shared.login);
                let _ = target.and_then(|mut target| shared.note_state(&mut target, true));
                shared.await_judgement();
            }
            Cursor { offset: shared.feed.begin_round(), resumes: false }
        }
    })
}

/// The reply to a request of the target before it follows.
fn answer(args: &[&[u8]], cursor: Option<Cursor>, shared: &Shared) -> Vec<u8> {
    let id = &shared.id;
    match cursor {
        Some(Cursor { resumes: true, .. }) => return format!("+CONTINUE {id}\r\n").into_bytes(),
        Some(Cursor { offset, .. }) => {
            let image = empty_image();
            let head = format!("+FULLRESYNC {id} {offset}\r\n${}\r\n", image.len());
            return [head.into_bytes(), image].concat();
        }
        None => {}
    }
    match args.first().map(|name| name.to_ascii_lowercase()).as_deref() {
        Some(b"ping") => b"+PONG\r\n".to_vec(),
        Some(b"auth" | b"replconf") => b"+OK\r\n".to_vec(),
        Some(_) => b"-ERR this is stillframe migrate-cluster, for its target alone\r\n".to_vec(),
        None => Vec::new(),
    }
}

/// An image without data.
fn empty_image() -> Vec<u8> {
    let mut image = Vec::new();
    let mut encoder = Encoder::new(&mut image);
    let origin = Origin { created_s: 0, used_memory_bytes: 0, aof_base: false };
    let written = encoder.begin(&origin).and_then(|()| encoder.finish());
    written.expect("a Vec takes all");
    image
}

/// The offset that a target reports as applied.
fn applied(args: &[&[u8]]) -> Option<u64> {
    let [name, what, offset, ..] = args else { return None };
    let is_ack = name.eq_ignore_ascii_case(b"replconf") && what.eq_ignore_ascii_case(b"ack");
    std::str::from_utf8(offset).ok().filter(|_| is_ack)?.parse().ok()
}

/// Writes the stream to the target.
fn feed(mut stream: Output, mut cursor: u64, turn: &Turn, shared: &Shared) {
    while !turn.is_over(shared) && !shared.feed.is_stale() {
        let Some(bytes) = shared.feed.from(cursor, PIECE_BYTES) else { break };
        if stream.write_all(&bytes).is_err() {
            break;
        }
        cursor += bytes.len() as u64;
    }
    stream.shutdown();
}

/// Looks whether a server can take the data, before anything is changed, and whether it follows
/// over TLS.
pub(super) fn check(target: &mut Connection, name: &str) -> Result<bool, String> {
    let info = target.info("all")?;
    if info.field("role") != Some("master") {
        return Err(format!("{name} is a replica: send it REPLICAOF NO ONE first"));
    }
    match info.keys() {
        0 => {}
        keys => {
            return Err(format!("{name} holds {keys} keys, which would be lost: empty it first"));
        }
    }
    if let Some(why) = full(&info) {
        return Err(format!("{name} {why}"));
    }
    // A user that may not ask is one that knows.
    let mut is = |setting: &str, value: &str| {
        let answer = target.ask_line(&format!("CONFIG GET {setting}"));
        answer.is_ok_and(|it| it.list().get(1).is_some_and(|found| found.text() == value))
    };
    if info.number("maxmemory") > 0 && is("replica-ignore-maxmemory", "no") {
        return Err(format!(
            "{name} would drop data at its maxmemory while it follows: set \
             replica-ignore-maxmemory yes for the migration"
        ));
    }
    Ok(is("tls-replication", "yes"))
}

/// Why a server cannot keep more than it has, if that is so: a primary with that much memory would
/// refuse writes or evict keys, and what its disk does not take is lost at its next start.
pub(super) fn full(info: &Info) -> Option<String> {
    let (most, used) = (info.number("maxmemory"), info.number("used_memory"));
    let counted = used.saturating_sub(info.number("mem_not_counted_for_evict"));
    if most > 0 && counted > most {
        return Some(format!(
            "is full: its data take {counted} bytes, and its maxmemory is {most}: raise it"
        ));
    }
    let fails = |field| info.field(field) == Some("err");
    if fails("aof_last_write_status") {
        return Some("cannot write its log, as its own log tells: give it room on its disk".into());
    }
    if fails("rdb_last_bgsave_status") {
        return Some("cannot save, as its own log tells: give it room on its disk".into());
    }
    None
}

/// Why the target does not follow the program that listens at `port`, if that is so.
pub(super) fn problem(target: &mut Connection, port: u16) -> Result<Option<String>, String> {
    let info = target.info("all")?;
    if let Some(why) = full(&info) {
        return Ok(Some(format!("it {why}")));
    }
    if info.field("role") != Some("slave") || info.field("master_port") != Some(&port.to_string()) {
        return Ok(Some("somebody has changed what it follows".to_owned()));
    }
    Ok(match (info.field("master_sync_failures"), info.field("master_sync_last_error")) {
        (Some(count), Some(why)) if count != "0" && !why.is_empty() => Some(why.to_owned()),
        _ => None,
    })
}
