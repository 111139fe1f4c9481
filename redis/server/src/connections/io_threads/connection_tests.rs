//! A connection alone, without threads: what it hands over, and when.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::connection::{Connection, Ready};
use super::inputs::{Credit, Gauge, Inputs, News};
use crate::connections::net::Stream;

const SET: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nvv\r\n";

struct Scene {
    peer: UnixStream,
    connection: Connection,
    gauge: Arc<Gauge>,
    to: Inputs,
}

impl Scene {
    fn new() -> Self {
        let (peer, own) = UnixStream::pair().expect("two sockets");
        own.set_nonblocking(true).expect("a socket");
        let gauge: Arc<Gauge> = Arc::default();
        let stream = Stream::Unix(mio::net::UnixStream::from_std(own));
        let connection = Connection::new(stream, 3, 7, gauge.clone());
        Self { peer, connection, gauge, to: Inputs::default() }
    }

    /// The peer sends this; returns what is handed over: bytes, and how many plain requests.
    fn send(&mut self, bytes: &[u8]) -> Vec<(Vec<u8>, usize)> {
        self.peer.write_all(bytes).expect("it is sent");
        self.connection.note(Ready { readable: true, ..Ready::default() }, &mut self.to);
        while self.connection.can_read() {
            self.connection.read(&mut self.to);
        }
        self.take()
    }

    fn take(&mut self) -> Vec<(Vec<u8>, usize)> {
        let inputs = self.to.list.iter().map(|input| {
            let bytes = self.to.bytes[input.bytes.0..input.bytes.1].to_vec();
            (bytes, input.outlines.1 - input.outlines.0)
        });
        let inputs = inputs.collect();
        self.to.list.clear();
        self.to.outlines.clear();
        self.to.filled = 0;
        inputs
    }
}

#[test]
fn a_request_that_comes_in_pieces_is_handed_over_whole() {
    for cut in 1..SET.len() {
        let mut scene = Scene::new();
        assert_eq!(scene.send(&SET[..cut]), [], "{cut} bytes");
        assert_eq!(scene.gauge.kept.load(Ordering::Relaxed), cut);
        let rest = [&SET[cut..], SET, b"*1\r\n$4\r\nPI"].concat();
        assert_eq!(scene.send(&rest), [([SET, SET].concat(), 2)], "{cut} bytes");
        scene.connection.allow(Credit::AtRequest);
        assert_eq!(scene.send(b"NG\r\n"), [(b"*1\r\n$4\r\nPING\r\n".to_vec(), 1)]);
    }
}

#[test]
fn nothing_is_handed_over_without_credit() {
    let mut scene = Scene::new();
    assert_eq!(scene.send(SET).len(), 1);
    assert_eq!(scene.send(SET), [], "the first has not run");
    scene.connection.allow(Credit::AtRequest);
    assert_eq!(scene.send(b""), [(SET.to_vec(), 1)]);
    // The peer leaves before the second has run: that is news, and no input.
    drop(std::mem::replace(&mut scene.peer, UnixStream::pair().expect("two sockets").0));
    scene.connection.note(Ready { readable: true, ended: true, ..Ready::default() }, &mut scene.to);
    let news: Vec<News> = scene.to.notes.iter().map(|note| note.news).collect();
    assert_eq!((news, scene.take()), (vec![News::Ended], vec![]));
    scene.connection.allow(Credit::AtRequest);
    scene.connection.read(&mut scene.to);
    assert!(scene.to.list[0].is_last && scene.to.list[0].ended);
}

#[test]
fn what_is_not_plain_goes_over_as_it_comes() {
    let mut scene = Scene::new();
    let bytes = [SET, b"PING\r\nGET k"].concat();
    assert_eq!(scene.send(&bytes), [(bytes.clone(), 1)]);
    // The command thread has the start of a request: what follows belongs to it.
    scene.connection.allow(Credit::Within);
    let bytes = [b"\r\n", SET].concat();
    assert_eq!(scene.send(&bytes), [(bytes.clone(), 0)]);
    scene.connection.allow(Credit::AtRequest);
    assert_eq!(scene.send(SET), [(SET.to_vec(), 1)]);
}

#[test]
fn replies_leave_in_order_through_a_socket_that_fills() {
    let mut scene = Scene::new();
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 7) as u8).collect();
    let (small, rest) = bytes.split_at(100_000);
    let (large, last) = rest.split_at(2_000_000);
    scene.connection.write(small, &mut scene.to);
    scene.connection.write_all(large.to_vec(), &mut scene.to);
    scene.connection.write(last, &mut scene.to);
    scene.connection.report_when_drained(&mut scene.to);
    assert!(scene.to.notes.is_empty(), "the socket takes less");
    let sent = scene.gauge.sent.load(Ordering::Relaxed) as usize;
    assert_eq!(scene.connection.unsent(), &bytes[sent..]);
    let mut read = vec![0; bytes.len()];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += scene.peer.read(&mut read[filled..]).expect("bytes");
        scene.connection.note(Ready { writable: true, ..Ready::default() }, &mut scene.to);
    }
    assert!(read == bytes, "in order");
    assert_eq!(scene.gauge.sent.load(Ordering::Relaxed), bytes.len() as u64);
    let news: Vec<News> = scene.to.notes.iter().map(|note| note.news).collect();
    assert_eq!(news, [News::Drained], "told once");
}

#[test]
fn a_connection_that_has_failed_says_so_once() {
    let mut scene = Scene::new();
    drop(std::mem::replace(&mut scene.peer, UnixStream::pair().expect("two sockets").0));
    scene.connection.write(b"+OK\r\n", &mut scene.to);
    scene.connection.write(b"+OK\r\n", &mut scene.to);
    scene.connection.write_all(vec![b'x'; 100_000], &mut scene.to);
    let news: Vec<News> = scene.to.notes.iter().map(|note| note.news).collect();
    assert_eq!(news, [News::Failed]);
    assert!(!scene.connection.can_read() && scene.connection.unsent().is_empty());
    scene.to.clear();
    assert!(scene.to.is_empty());
}
