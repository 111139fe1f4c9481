//! Answers against what servers reply to commands, of this server, Redis and Valkey; declared
//! tables, formats, bounds, and sources that are refused.

mod oracle;
mod refused;
mod server;
mod tables;

use std::path::Path;

use serde_json::Value;
use stillframe_query::{Bounds, Format, Image, Opening, QuerySession};

/// A session on a source.
fn session(source: &Path, binary: bool) -> QuerySession {
    let image = Image::open(&source.display().to_string(), &Opening::default());
    let image = image.expect("a source that can be read");
    let temporary = std::env::temp_dir();
    let bounds = Bounds { memory_bytes: 256 << 20, threads: 2, temporary };
    QuerySession::new(image, binary, &bounds).expect("a session")
}

/// The rows of an answer, each an object.
fn ask(session: &mut QuerySession, sql: &str) -> Vec<Value> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    run(session, sql, Format::Json, Some(file.path())).expect(sql);
    let text = std::fs::read_to_string(file.path()).expect("the answer");
    text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

fn run(
    session: &mut QuerySession,
    sql: &str,
    format: Format,
    out: Option<&Path>,
) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let answer = session.run(sql, format, out);
    runtime.expect("threads").block_on(answer).map_err(|error| error.to_string())
}
