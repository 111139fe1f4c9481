//! The first image of a replica: begun between two requests, sent while writes go on.
//!
//! - Waiting replicas share one image. It goes from the snapshotter straight into their sockets;
//!   replicas that need its length beforehand get the dump file of a save instead.
//! - Each replica gets a version that it reads: Redis's lowest that holds the data, or that of
//!   Valkey 9 if it announces it and fields expire. One that reads none is refused beforehand.
//! - A replica that announces no version, and then does not load an image in a later one, gets the
//!   next one after a pause that grows; in a lower version at once, if that is for streams alone:
//!   without messages of producers, and with what is pending for nobody as a consumer's. Redis
//!   before 8.0 tells itself apart, and gets the lower one first.
//! - There is one image for replicas at a time, beside that of a save: a replica that comes while
//!   one is under way waits for the next.
//! - Writes meanwhile stay in the stream, up to the replicas' output limit.

use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use stillframe::{CaptureError, Point, Shared};
use stillframe_durability::disk::Input;
use stillframe_keyspace::{HeldImage, Keyspace};
use stillframe_rdb::{Encoder, Origin, Output, Value, Version};
use stillframe_storage::RdbVersion;
use stillframe_storage::dump::{
    Counters, Purpose, RdbSink, StreamPoint, image_version, whole_micros, with_header,
};

use crate::connections::client::{Client, FAILED, Phase, Reads, Relay, Replica, Sent};
use crate::connections::clients::Clients;
use crate::node::clock::unix_millis;
use crate::peers::replication::Replication;
use crate::peers::replication::target::{Target, Targets};
use crate::peers::replication::transfers::{Transfer, TransferError};
use crate::state::ServerState;
use crate::state::persistence;

/// A replica's socket, and its first bytes.
type Greeted = (Target, Vec<u8>);

/// Bytes of a file sent at once.
const PIECE_BYTES: usize = 256 << 10;

/// Notes the end of a transfer, and begins the next. Called every turn.
pub(crate) fn attend(keyspace: &mut Keyspace, state: &mut ServerState) {
    if state.replication.transfers.running.is_some() {
        finish(keyspace, state);
    }
    if state.replication.transfers.saving {
        give_up_useless(keyspace, state);
    }
    if !state.replication.followers.places.is_empty() {
        send_saved(state);
        begin_due(keyspace, state);
    }
}

/// Ends the transfer under way: its replicas are lost.
pub(crate) fn abort(keyspace: &mut Keyspace, state: &mut ServerState) {
    let Some(running) = &state.replication.transfers.running else { return };
    for &(place, id) in &running.replicas {
        if let Some(client) = state.clients.get_mut(place).filter(|it| it.session.caller.id == id) {
            // Its sender no longer waits for it.
            client.cut();
            client.relay = None;
        }
    }
    state.storage.saves.sending.cancel();
    if let Some(image) = running.image {
        state.storage.saves.give_up(keyspace, image, &state.storage.saves.sending);
        keyspace.wait_for(image);
    }
}

fn finish(keyspace: &mut Keyspace, state: &mut ServerState) {
    let transfers = &mut state.replication.transfers;
    let image = transfers.image();
    let give_back = |workspace: Option<_>| {
        workspace.into_iter().for_each(|it| state.storage.saves.give_back(it))
    };
    let held = transfers.handback.poll(|| image.is_some_and(|it| keyspace.holds(it)), give_back);
    let own = transfers.running.iter().flat_map(|running| &running.replicas);
    let mut clients = own.filter_map(|&(place, id)| {
        state.clients.get(place).filter(|it| it.session.caller.id == id)
    });
    let relaying = clients.any(|client| client.relay.is_some() && !client.dead);
    if let Some(image) = image.filter(|_| held && !transfers.anybody_left(&state.clients)) {
        state.storage.saves.give_up(keyspace, image, &state.storage.saves.sending);
    }
    if held || relaying || !(transfers.handback.has_ended() || image.is_some()) {
        return;
    }
    let Some(running) = transfers.running.take() else { return };
    let outcome = transfers.handback.take().unwrap_or(Err(TransferError::Silence));
    let took = running.started.elapsed();
    match &outcome {
        Ok(()) => tracing::info!("replicas got their image in {:.3} s", took.as_secs_f64()),
        Err(problem) => tracing::warn!("replicas did not get their image: {problem}"),
    }
    for (place, id) in running.replicas {
        let now = state.clock.turn();
        let Some(client) = state.clients.get_mut(place).filter(|it| it.session.caller.id == id)
        else {
            continue;
        };
        let Some(replica) = client.replica_mut() else { continue };
        let failed = |sent: &Sent| sent.load(Ordering::Relaxed) == FAILED;
        let over = replica.image_only || replica.sent.as_ref().is_some_and(failed);
        if outcome.is_err() || over {
            state.clients.close_later(place);
        } else {
            replica.go_online(now, running.image.is_some());
        }
    }
}

/// How a replica gets its image, and in which version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delivery {
    /// From the snapshotter.
    Live(Version),
    /// As the dump file of a save.
    File(Version),
}

impl Delivery {
    fn version(self) -> Version {
        match self {
            Self::Live(version) | Self::File(version) => version,
        }
    }
}

/// How a replica gets its image. `None`: no version that it reads holds the data.
fn delivery(
    keyspace: &Keyspace,
    state: &ServerState,
    replica: &Replica,
    name: &str,
) -> Option<Delivery> {
    let lowest = image_version(keyspace, RdbVersion::Auto).unwrap_or_default();
    let plain = match keyspace.timed_hashes() {
        0 => Version::Redis10,
        _ => Version::Redis12,
    };
    // What has no name cannot be tried.
    let refuses = |version| match replica.port {
        0 => !replica.image_only,
        _ => replica.is_before_redis_8() || state.replication.known.has_refused(name, version),
    };
    let valkey = replica.valkey.filter(|_| !replica.branches);
    let (arrays, is_nameless) = (keyspace.arrays() > 0, replica.port == 0 && !replica.image_only);
    let version = match valkey {
        // No lower version holds arrays.
        Some(_) if arrays => return None,
        None if arrays && (replica.is_before_redis_8() || is_nameless) => return None,
        None => match lowest {
            Version::Redis14 if arrays || !refuses(lowest) => lowest,
            Version::Redis13 | Version::Redis14
                if keyspace.streams_with_idmp() > 0 && !refuses(Version::Redis13) =>
            {
                Version::Redis13
            }
            Version::Redis13 | Version::Redis14 => plain,
            _ => lowest,
        },
        // Streams are as Valkey knows them.
        Some(_) if keyspace.timed_hashes() == 0 => Version::Redis10,
        Some(9..) => Version::Valkey80,
        Some(_) => return None,
    };
    // A file whose version `rdb-version` sets may be none that the replica reads.
    let of_file = image_version(keyspace, state.config.rdb_version).unwrap_or_default();
    let takes_file = !state.config.replication.diskless && of_file == version;
    let is_file = !replica.eof || takes_file;
    Some(if is_file { Delivery::File(of_file) } else { Delivery::Live(version) })
}

/// Whether a replica may get an image in a version now: see the head of `known`.
fn is_due(state: &ServerState, replica: &Replica, name: &str, version: Version) -> bool {
    !replica.is_tried_by(version) || replica.reads(version) || {
        state.replication.known.is_due(name, version, state.clock.turn())
    }
}

/// Notes that replicas get an image, which shows what they read if it is in a later version.
fn note_sent(keyspace: &Keyspace, state: &mut ServerState, places: &[usize], version: Version) {
    let now = state.clock.turn();
    if image_version(keyspace, RdbVersion::Auto).is_ok_and(|it| it == Version::Redis10) {
        state.replication.known.forget_failures();
    }
    for &place in places {
        let Some(client) = state.clients.get_mut(place) else { continue };
        let peer = client.session.caller.peer.clone();
        let Some(replica) = client.replica_mut().filter(|it| it.is_tried_by(version)) else {
            continue;
        };
        let known = match replica.reads {
            Reads::Loaded(known) if known.number() > version.number() => known,
            _ => version,
        };
        replica.reads = Reads::Sent(known);
        // One that wants a file alone never says whether it has read it, and one without a port
        // has no name.
        if !replica.image_only && replica.port > 0 {
            state.replication.known.note_sent(&replica.name(&peer), version, now);
        }
    }
}

/// Replicas that wait for the same delivery.
struct Waiting {
    delivery: Option<Delivery>,
    places: Vec<usize>,
    /// Since when the first of them waits.
    since: Instant,
}

/// The replicas that wait for an image with data, by how they get it.
fn waiting(keyspace: &Keyspace, state: &ServerState) -> Vec<Waiting> {
    let mut all: Vec<Waiting> = Vec::new();
    for (client, replica) in state.replication.replicas(&state.clients) {
        let Phase::Waiting(since) = replica.phase else { continue };
        if client.dead || replica.no_data {
            continue;
        }
        let name = replica.name(&client.session.caller.peer);
        let (delivery, place) =
            (delivery(keyspace, state, replica, &name), client.session.caller.place);
        if delivery.is_some_and(|delivery| !is_due(state, replica, &name, delivery.version())) {
            continue;
        }
        match all.iter_mut().find(|waiting| waiting.delivery == delivery) {
            None => all.push(Waiting { delivery, places: vec![place], since }),
            Some(waiting) => {
                waiting.places.push(place);
                waiting.since = waiting.since.min(since);
            }
        }
    }
    all
}

fn begin_due(keyspace: &mut Keyspace, state: &mut ServerState) {
    if state.ledger.in_exec
        || state.replication.following.as_ref().is_some_and(|it| !it.is_connected())
    {
        return;
    }
    send_empty(keyspace, state);
    let waiting = waiting(keyspace, state);
    let unable = waiting.iter().filter(|it| it.delivery.is_none()).flat_map(|it| &it.places);
    let arrays = keyspace.arrays() > 0;
    unable.for_each(|&place| refuse(state, place, arrays));
    if state.replication.transfers.running.is_some() {
        return;
    }
    let settings = &state.config.replication;
    let delay = Duration::from_secs(settings.diskless_delay_s.into());
    let most = settings.diskless_replicas_max as usize;
    for Waiting { delivery, places, since } in &waiting {
        if let Some(Delivery::Live(version)) = *delivery
            && (since.elapsed() >= delay || most > 0 && places.len() >= most)
        {
            note_sent(keyspace, state, places, version);
            return begin_live(keyspace, state, places, version);
        }
    }
    // These get a file, which begins when the save under way is over.
    let for_file = waiting.iter().find_map(|it| match it.delivery {
        Some(Delivery::File(version)) => Some((&it.places, version)),
        _ => None,
    });
    if let Some((places, version)) = for_file
        && state.storage.saves.running().is_none()
    {
        if persistence::begin(keyspace, state, Purpose::Dump).is_err() {
            return places.iter().for_each(|&place| state.clients.close_later(place));
        }
        state.replication.transfers.saving = true;
        note_sent(keyspace, state, places, version);
        announce(state, places, Phase::Saving);
    }
}

/// Refuses a replica that reads no version which holds the data.
fn refuse(state: &mut ServerState, place: usize, arrays: bool) {
    let Some(client) = state.clients.get_mut(place) else { return };
    let Some(replica) = client.replica() else { return };
    let why = match replica.valkey {
        _ if arrays => {
            "there are arrays here, which Redis before 8.8 and Valkey cannot hold".to_owned()
        }
        Some(major) => {
            format!("fields of hashes expire here, and Valkey {major} cannot hold them")
        }
        None => return,
    };
    tracing::error!("the replica at {} is refused: {why}", client.session.caller.peer);
    client.output.extend_from_slice(format!("-ERR {why}\r\n").as_bytes());
    let _ = client.flush(); // a replica that does not take it gets no image, either
    state.clients.close_later(place);
}

/// Stops a save that was begun for replicas when all of them have left, unless a schedule wants the
/// file, too.
fn give_up_useless(keyspace: &Keyspace, state: &mut ServerState) {
    if state.storage.saves.running().is_none() {
        state.replication.transfers.saving = false;
        return;
    }
    let mut replicas = state.replication.replicas(&state.clients);
    let waits = replicas.any(|(_, replica)| replica.phase == Phase::Saving);
    drop(replicas);
    if !waits && state.config.save.is_empty() && !state.config.appendonly {
        tracing::info!("stopping the save under way: the replicas that wait for it have left");
        state.replication.transfers.saving = false;
        state.storage.abandon(keyspace);
    }
}

/// Announces to replicas an image that holds the stream so far.
fn announce(state: &mut ServerState, places: &[usize], phase: Phase) {
    state.ledger.effects.select_anew();
    let replication = &mut state.replication;
    let offset = replication.stream.end();
    for &place in places {
        let Some(client) = state.clients.get_mut(place) else { continue };
        let Some(replica) = client.replica_mut() else { continue };
        let old = replica.old;
        // It has acknowledged nothing before it says that it has loaded the image.
        (replica.phase, replica.cursor) = (phase, offset);
        (replica.acked, replica.logged) = (None, None);
        if !old {
            let line = format!("+FULLRESYNC {} {offset}\r\n", replication.name.id);
            client.output.extend_from_slice(line.as_bytes());
        }
        state.meter.synchronised_fully();
        state.clients.flush_later(place);
    }
}

/// Sends an empty image, which needs no snapshot, to replicas that want no data.
fn send_empty(keyspace: &mut Keyspace, state: &mut ServerState) {
    let wanting = |&place: &usize| {
        let replica = state.clients.get(place).filter(|it| !it.dead).and_then(Client::replica);
        replica.is_some_and(|it| it.no_data && matches!(it.phase, Phase::Waiting(_)))
    };
    let places: Vec<usize> =
        state.replication.followers.places.iter().copied().filter(wanting).collect();
    if places.is_empty() {
        return;
    }
    persistence::hand_on(keyspace, state);
    announce(state, &places, Phase::Sending);
    let mark = state.ledger.random.identifier();
    let image = empty_image(keyspace, &state.replication).unwrap_or_default();
    for place in places {
        let Some(client) = state.clients.get_mut(place) else { continue };
        client.output.extend_from_slice(format!("$EOF:{mark}\r\n").as_bytes());
        client.output.extend_from_slice(&image);
        client.output.extend_from_slice(mark.as_bytes());
        let Some(replica) = client.replica_mut() else { continue };
        replica.go_online(state.clock.turn(), true);
        client.session.closing = replica.image_only;
        state.clients.flush_later(place);
    }
}

/// A file without keys.
fn empty_image(keyspace: &Keyspace, replication: &Replication) -> std::io::Result<Vec<u8>> {
    let mut encoder = Encoder::new(Vec::new());
    let created_s = unix_millis() / 1000;
    encoder.begin(&Origin { created_s, used_memory_bytes: 0, aof_base: false })?;
    for (name, value) in replication.point().iter().flat_map(StreamPoint::fields) {
        encoder.aux(name, Value::Bytes(value.as_bytes()))?;
    }
    for source in keyspace.libraries().sources() {
        encoder.library(source)?;
    }
    encoder.finish()?;
    Ok(encoder.into_output())
}

/// The sockets of replicas, each with its bytes before the image itself.
fn targets(
    clients: &mut Clients,
    places: &[usize],
    header: &str,
    phase: Phase,
) -> (Vec<Greeted>, Vec<(usize, u64)>) {
    let (mut targets, mut replicas) = (Vec::new(), Vec::new());
    for &place in places {
        let Some(client) = clients.get_mut(place) else { continue };
        match target(client, header, phase) {
            Some(target) => {
                targets.push(target);
                replicas.push((place, client.session.caller.id));
            }
            None => clients.close_later(place),
        }
    }
    (targets, replicas)
}

fn target(client: &mut Client, header: &str, phase: Phase) -> Option<Greeted> {
    let stream = client.wire.local()?;
    let socket = if stream.is_plain() {
        let own = stream.descriptor()?.try_clone_to_owned().ok()?;
        // The announcement does not wait for the image. The part that the socket does not take goes
        // before the image's first bytes; if the socket has failed, they fail as well.
        let _ = client.flush();
        own
    } else {
        let (relay, socket) = Relay::new().ok()?;
        client.relay = Some(Box::new(relay));
        socket
    };
    let sent = Shared::new(AtomicU64::new(0)).ok()?;
    let mut greeting = client.take_pending();
    greeting.extend_from_slice(header.as_bytes());
    let replica = client.replica_mut()?;
    replica.phase = phase;
    replica.sent = Some(sent.clone());
    Some((Target::new(socket, sent), greeting))
}

/// Targets held to `snapshot-bandwidth` until the transfer is [aborted](abort).
fn paced(targets: Vec<(Target, Vec<u8>)>, mark: [u8; 40], state: &ServerState) -> Targets {
    // One transfer at a time.
    let throttle = state.storage.saves.sending.renewed(state.config.snapshot_bandwidth_bytes);
    Targets::new(targets, mark, throttle)
}

/// Begins an image that goes straight to replicas.
fn begin_live(
    keyspace: &mut Keyspace,
    state: &mut ServerState,
    places: &[usize],
    version: Version,
) {
    persistence::hand_on(keyspace, state);
    announce(state, places, Phase::Sending);
    let mark = state.ledger.random.identifier();
    let (targets, replicas) =
        targets(&mut state.clients, places, &format!("$EOF:{mark}\r\n"), Phase::Sending);
    let count = replicas.len();
    let mut ending = [0; 40];
    ending.iter_mut().zip(mark.bytes()).for_each(|(to, from)| *to = from);
    let targets = paced(targets, ending, state);
    let begun = start_live(keyspace, state, targets, version);
    let transfers = &mut state.replication.transfers;
    match begun {
        Ok(image) => {
            let begin = image.begin;
            tracing::info!(
                "sending an image to {count} replicas; the server was held up for {} us to begin it",
                whole_micros(begin)
            );
            state.storage.saves.latest_begin = begin;
            let started = Instant::now();
            transfers.running = Some(Transfer { replicas, image: Some(image), started });
        }
        Err(problem) => {
            tracing::error!("cannot begin an image for replicas: {problem}");
            places.iter().for_each(|&place| state.clients.close_later(place));
        }
    }
}

fn start_live(
    keyspace: &mut Keyspace,
    state: &mut ServerState,
    targets: Targets,
    version: Version,
) -> Result<HeldImage, TransferError> {
    let counters = Counters::new()?;
    let encoder = Encoder::within(state.storage.saves.lend_workspace(), targets);
    let encoder = encoder.compress(state.config.rdbcompression).version(version);
    let fields = state.replication.point().into_iter().flat_map(|point| point.fields());
    let encoder = with_header(encoder, keyspace, fields);
    let sink = RdbSink::new(encoder?, counters);
    let sink = sink.dragged(state.storage.saves.dragged(state.config.key_save_delay_us));
    let sink = sink.telling_uses(state.config.maxmemory_policy.counts_uses());
    let taker = state.replication.transfers.handback.taker();
    let publish = move |sink: &mut RdbSink<Targets>, captured: Result<(), CaptureError>| {
        let outcome = captured.map_err(TransferError::Capture);
        taker.report(outcome, Some(sink.encoder.take_workspace()));
    };
    let wake = state.storage.saves.wake();
    Ok(keyspace.image(Point::declare(), sink, wake, publish)?)
}

/// Sends the dump file to the replicas whose image has just been saved in it.
fn send_saved(state: &mut ServerState) {
    if state.storage.saves.running().is_some() || state.replication.transfers.running.is_some() {
        return;
    }
    let saving = |&place: &usize| {
        let replica = state.clients.get(place).and_then(Client::replica);
        replica.is_some_and(|replica| replica.phase == Phase::Saving)
    };
    let places: Vec<usize> =
        state.replication.followers.places.iter().copied().filter(saving).collect();
    if places.is_empty() {
        return;
    }
    let opened = state.storage.saves.directory().open_dump();
    let (file, length) = match opened {
        Ok(opened) if state.storage.saves.ended_well => opened,
        _ => return places.into_iter().for_each(|place| state.clients.close_later(place)),
    };
    let (targets, replicas) =
        targets(&mut state.clients, &places, &format!("${length}\r\n"), Phase::SendingFile);
    let targets = paced(targets, [0; 40], state);
    let transfers = &mut state.replication.transfers;
    let taker = transfers.handback.taker();
    let send = move || taker.report(send_file(file, targets), None);
    let spawned = std::thread::Builder::new().name("replicas".to_owned()).spawn(send);
    if let Err(error) = spawned {
        tracing::error!("cannot send the dump file to replicas: {error}");
        return places.into_iter().for_each(|place| state.clients.close_later(place));
    }
    transfers.running = Some(Transfer { replicas, image: None, started: Instant::now() });
}

fn send_file(mut file: Input, mut targets: Targets) -> Result<(), TransferError> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => targets.write(&piece[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}
