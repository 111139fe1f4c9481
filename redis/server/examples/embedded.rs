//! A server within this program, without a port:
//! `cargo run -p stillframe-server --example embedded`.

use std::error::Error;
use std::io::{self, Write};
use std::time::Instant;

use stillframe_resp::Reply;
use stillframe_server::{Config, Embedded};

const CALLS: u32 = 200_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut config = Config::embedded("embedded-data");
    config.set("appendonly", &["yes"])?; // any directive of redis.conf
    let mut server = Embedded::start(config)?;

    // Each thread has a client of its own.
    let mut client = server.handle().client()?;
    let runs = client.ask(&["INCR", "runs"], |reply| match reply {
        Reply::Integer(count) => Ok(count),
        other => Err(format!("{other:?}")),
    })??;
    writeln!(io::stdout(), "this program has run {runs} times")?;

    let start = Instant::now();
    for _ in 0..CALLS {
        client.ask(&["HSET", "user:1", "name", "Ada"], |_| ())?;
    }
    let took = start.elapsed() / CALLS;
    writeln!(io::stdout(), "a call, its write and its reply take {took:?}")?;

    server.shutdown()?; // waits for the log
    Ok(())
}
