//! What a request and a reply cost: `cargo bench -p stillframe-resp`. Each figure is the best of
//! several rounds, because other work on the machine only ever slows a round down.

use std::hint::black_box;
use std::time::Instant;

use stillframe_resp::{Limits, Out, Parser, Protocol};

const ROUNDS: usize = 15;

/// Prints the least time `round` took, over `count` things and `bytes` bytes.
fn report(what: &str, count: usize, bytes: usize, mut round: impl FnMut()) {
    let mut seconds = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        round();
        seconds = seconds.min(begin.elapsed().as_secs_f64());
    }
    let (each_ns, rate) = (seconds * 1e9 / count as f64, bytes as f64 / seconds / 1e6);
    println!("{what:<34} {each_ns:>9.1} ns each {rate:>8.0} MB/s");
}

fn parse(what: &str, request: &[u8], count: usize) {
    let mut input = request.repeat(count);
    let mut parser = Parser::new(Limits::OPEN);
    report(what, count, input.len(), || {
        let mut at = 0;
        while let Some(used) = parser.parse(&mut input[at..]).expect("requests are right") {
            black_box(parser.args());
            at += used;
        }
        assert_eq!(at, input.len());
    });
}

fn main() {
    if cfg!(debug_assertions) {
        println!("a debug build: the figures mean nothing");
    }
    let set = "*3\r\n$3\r\nSET\r\n$16\r\nkey:000000012345\r\n$3\r\nxxx\r\n";
    parse("parse SET of 3 bytes", set.as_bytes(), 20_000);
    parse("parse GET", b"*2\r\n$3\r\nGET\r\n$16\r\nkey:000000012345\r\n", 20_000);
    let large = [b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$1024\r\n", &[b'v'; 1024][..], b"\r\n"].concat();
    parse("parse SET of 1 KiB", &large, 5_000);
    parse("parse inline GET", b"GET key:000000012345\r\n", 20_000);
    let mset = [b"*1001\r\n$4\r\nMSET\r\n".to_vec(), b"$8\r\nabcdefgh\r\n".repeat(1000)].concat();
    parse("parse MSET of 1000 arguments", &mset, 100);

    let mut buffer = Vec::with_capacity(1 << 24);
    let mut reply = |what: &str, write: &dyn Fn(&mut Out<'_>)| {
        write(&mut Out::new(&mut buffer, Protocol::Resp2));
        let bytes = buffer.len() * 20_000;
        report(what, 20_000, bytes, || {
            buffer.clear();
            let mut out = Out::new(&mut buffer, Protocol::Resp2);
            (0..20_000).for_each(|_| write(&mut out));
            black_box(&buffer);
        });
        buffer.clear();
    };
    reply("write +OK", &|out| out.ok());
    reply("write an integer", &|out| out.integer(black_box(123_456)));
    reply("write a bulk of 3 bytes", &|out| out.bulk(black_box("xxx")));
    reply("write a double", &|out| out.double(black_box(0.1)));
}
