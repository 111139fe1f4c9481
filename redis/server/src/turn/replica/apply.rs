//! The stream of a primary, applied to the data.
//!
//! A transaction counts as applied when it is whole: after a connection that ends within one, the
//! server resumes before it, and nobody ever sees half of it.

use stillframe_commands::Needs;
use stillframe_keyspace::Keyspace;
use stillframe_resp::ProtocolError;
use stillframe_storage::replay::{ReplayError, named};

use crate::commands::{self, Alone, Table};
use crate::connections::client::Session;
use crate::node::config::ReplicationSettings;
use crate::peers::replication::link::Link;
use crate::state::ServerState;

/// Why the stream cannot be applied any further.
#[derive(Debug, thiserror::Error)]
pub(super) enum StreamError {
    /// The stream is malformed.
    #[error("its stream holds no request: {0}")]
    Request(#[from] ProtocolError),
    /// A command cannot run, or fails.
    #[error("{named} of its stream {source}")]
    Command {
        /// The request.
        named: String,
        /// Why.
        source: ReplayError,
    },
}

/// Runs the whole requests received. The bytes of those that count are added to the stream.
pub(super) fn apply(
    keyspace: &mut Keyspace,
    state: &mut ServerState,
    table: &Table,
    link: &mut Link,
) -> Result<(), StreamError> {
    let following = state.replication.following.as_mut();
    let Some(mut session) = following.and_then(|it| it.session.take()) else { return Ok(()) };
    let mut input = std::mem::take(&mut link.input);
    let mut replies = Vec::new();
    let (mut applied, mut asked, mut needs) = (0, false, Needs::default());
    let outcome = loop {
        let used = match link.parser.parse(&mut input[link.parsed..]) {
            Ok(None) => break Ok(()),
            Ok(Some(used)) => used,
            Err(error) => break Err(error.into()),
        };
        let request = &input[link.parsed..link.parsed + used];
        let ranges = link.parser.args().iter();
        let args: Vec<&[u8]> =
            ranges.map(|range| request.get(range.clone()).unwrap_or_default()).collect();
        let mut alone = Alone { keyspace, state, table };
        let run = run(&mut alone, &mut session, &mut replies, &args);
        link.needs.fields |= args.first().is_some_and(|name| is_of_fields(name));
        link.needs.note(&args);
        match run {
            Ok(asks) => asked |= asks,
            Err(why) if passes_over_errors(&state.config.replication) => {
                state.meter.met_unexpected_error();
                let name = args[0].escape_ascii();
                tracing::warn!(
                    "== CRITICAL == This replica is sending an error to its master: '{why}' after \
                     processing the command '{name}'"
                );
            }
            Err(source) => break Err(StreamError::Command { named: named(&args), source }),
        }
        link.parsed += used;
        if session.caller.transaction.is_none() {
            applied = link.parsed;
            needs.add(std::mem::take(&mut link.needs));
        }
    };
    state.replication.stream.append_requests(&input[..applied], needs);
    state.replication.stream.note_needs(needs); // replicas of this one get the same bytes
    state.replication.db = session.caller.db;
    state.meter.applied(applied);
    input.drain(..applied);
    link.parsed -= applied;
    link.input = input;
    if let Some(following) = &mut state.replication.following {
        following.session = Some(session);
    }
    if asked {
        let (offset, logged) = (state.replication.stream.end(), state.logged_offset());
        link.awaited = Some(offset);
        link.acknowledge(offset, logged, state.clock.turn());
    }
    outcome
}

/// Whether a request may give fields of hashes a time to live.
fn is_of_fields(name: &[u8]) -> bool {
    let of_fields: [&[u8]; 6] =
        [b"hpexpireat", b"hpexpire", b"hexpireat", b"hexpire", b"hsetex", b"hgetex"];
    name.first().is_some_and(|first| matches!(first, b'h' | b'H'))
        && of_fields.iter().any(|it| it.eq_ignore_ascii_case(name))
}

/// Whether to skip a request of the primary that fails here: where clients write, too, the data
/// differs anyway.
fn passes_over_errors(settings: &ReplicationSettings) -> bool {
    settings.ignore_errors || !settings.read_only
}

/// Runs one request; true if it asks for this server's offset.
fn run(
    alone: &mut Alone<'_>,
    session: &mut Session,
    replies: &mut Vec<u8>,
    args: &[&[u8]],
) -> Result<bool, ReplayError> {
    let Some(name) = args.first() else { return Ok(false) };
    if name.eq_ignore_ascii_case(b"ping") {
        return Ok(false);
    }
    if name.eq_ignore_ascii_case(b"replconf") {
        return Ok(args.get(1).is_some_and(|what| what.eq_ignore_ascii_case(b"getack")));
    }
    // The primary decides about time: see the head of `effects`.
    commands::replay(alone, session, replies, 0, args).map(|()| false)
}
