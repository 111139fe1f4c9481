//! A link to one primary of the cluster, which takes this program for a replica.
//!
//! - An image is received into a nameless file, and then goes to the target as a RESTORE for each
//!   key. What the primary writes meanwhile waits, here and in the primary's buffer.
//! - Behind the image go the requests of the stream. A transaction counts when it is whole.
//! - A link that breaks asks to go on where it was, at the same node or at the replica that took
//!   over. If that is refused, the target begins a new round, in which all links start anew.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use stillframe_resp::{Limits, Parser};

use super::Shared;
use super::batch::{Batch, Step};
use super::feed::{Block, Refused};
use super::topology::{Address, Slots};
use super::wire::{Broken, TICK, Wire, again};

/// From one report to the primary to the next.
const REPORT_PERIOD: Duration = Duration::from_secs(1);
/// Pauses between attempts grow up to this.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Bytes of the stream that are kept while an image goes to the target.
const AHEAD_MAX: usize = 64 << 20;

/// What a link is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// It connects, or waits for an image.
    Asking,
    /// It receives an image of which so many bytes have come. A total of 0 is unknown.
    Receiving { bytes: u64, total: u64 },
    /// The image goes to the target.
    Restoring { keys: u64 },
    /// It follows the stream, and has read it up to this offset.
    Following { offset: u64 },
}

/// What others see of a link.
pub(super) struct Link {
    pub(super) slots: Slots,
    address: Mutex<Address>,
    stopped: AtomicBool,
    /// Its stream has told of a slot that moves.
    moving: AtomicBool,
    phase: Mutex<Phase>,
}

fn get<T: Clone>(of: &Mutex<T>) -> T {
    of.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn set<T>(of: &Mutex<T>, value: T) {
    *of.lock().unwrap_or_else(PoisonError::into_inner) = value;
}

impl Link {
    pub(super) fn new(address: Address, slots: Slots) -> Self {
        Self {
            slots,
            address: Mutex::new(address),
            stopped: AtomicBool::new(false),
            moving: AtomicBool::new(false),
            phase: Mutex::new(Phase::Asking),
        }
    }

    pub(super) fn address(&self) -> Address {
        get(&self.address)
    }

    /// Another node has the slots from now on.
    pub(super) fn redirect(&self, address: Address) {
        set(&self.address, address);
    }

    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether its stream has told of a slot that moves since the last call.
    pub(super) fn take_move(&self) -> bool {
        self.moving.swap(false, Ordering::Relaxed)
    }

    pub(super) fn phase(&self) -> Phase {
        get(&self.phase)
    }

    fn show(&self, phase: Phase) {
        set(&self.phase, phase);
    }
}

/// Where in a primary's stream a link is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Position {
    id: String,
    offset: u64,
    db: u64,
}

/// The thread of a link.
pub(super) struct Follower<'a> {
    pub(super) link: &'a Link,
    pub(super) shared: &'a Shared,
    position: Option<Position>,
    /// The round of the target that it feeds.
    pub(super) round: u64,
    /// Whether it has passed on an image in this round.
    holds: bool,
}

impl<'a> Follower<'a> {
    pub(super) fn new(link: &'a Link, shared: &'a Shared) -> Self {
        Self { link, shared, position: None, round: 0, holds: false }
    }

    /// Follows until the link is stopped.
    pub(super) fn run(mut self) {
        let mut pause = TICK;
        loop {
            let begun = Instant::now();
            let (why, is_new) = match self.follow() {
                Ok(()) | Err(Broken::Over) => return,
                Err(Broken::Useless(why)) => {
                    return self.shared.fail(format!("{} {why}", self.link.address()));
                }
                Err(Broken::Again(why)) => (why, false),
                Err(Broken::Anew(why)) => (why, true),
            };
            if is_new {
                self.position = None;
            }
            self.link.show(Phase::Asking);
            let anew = if is_new { ": starting anew" } else { "" };
            tracing::warn!("{} {why}{anew}", self.link.address());
            pause = if begun.elapsed() > PAUSE_MAX { TICK } else { (pause * 2).min(PAUSE_MAX) };
            let end = Instant::now() + pause;
            while Instant::now() < end {
                if self.is_over() {
                    return;
                }
                std::thread::sleep(TICK);
            }
        }
    }

    fn is_over(&self) -> bool {
        self.link.stopped.load(Ordering::Relaxed) || self.shared.is_over()
    }

    /// Whether the link may go on as it is.
    pub(super) fn check(&self, wire: &Wire) -> Result<(), Broken> {
        if self.is_over() {
            return Err(Broken::Over);
        }
        if self.shared.feed.round() != self.round {
            return Err(Broken::Anew("feeds a target that begins again".to_owned()));
        }
        match self.link.address() {
            address if address != wire.address => {
                Err(Broken::Again(format!("follows {} in its slots", wire.address)))
            }
            _ => Ok(()),
        }
    }

    fn follow(&mut self) -> Result<(), Broken> {
        while self.shared.feed.is_stale() {
            if self.is_over() {
                return Err(Broken::Over);
            }
            std::thread::sleep(TICK / 10);
        }
        let round = self.shared.feed.round();
        if round != self.round {
            (self.round, self.position, self.holds) = (round, None, false);
        }
        if self.position.is_none() && self.holds {
            self.shared.feed.end_round(round);
            return Err(Broken::Anew("begins again, and all others with it".to_owned()));
        }
        let mut wire = Wire::open(
            &self.link.address(),
            self.shared.cluster.tls.as_ref(),
            self.shared.timeout,
        )?;
        self.greet(&mut wire)?;
        let offset;
        let (id, next): (&str, &str) = match &self.position {
            None => ("?", "-1"),
            Some(position) => {
                offset = (position.offset + 1).to_string();
                (&position.id, &offset)
            }
        };
        wire.send(&[b"PSYNC", id.as_bytes(), next.as_bytes()])?;
        let answer = self.line(&mut wire)?;
        match answer.split_whitespace().collect::<Vec<_>>()[..] {
            ["+CONTINUE", ref id @ ..] => {
                let position = self.position.as_mut().filter(|_| next != "-1");
                let position = position.ok_or(Broken::Again("resumes nothing".to_owned()))?;
                position.id = id.first().map_or(position.id.clone(), |id| (*id).to_owned());
                tracing::info!("{} goes on from offset {}", wire.address, position.offset);
            }
            ["+FULLRESYNC", id, offset] => {
                if self.position.take().is_some() {
                    return Err(Broken::Anew("cannot go on".to_owned()));
                }
                let offset = offset.parse().map_err(|_| Broken::Again(answer.clone()))?;
                let position = Position { id: id.to_owned(), offset, db: 0 };
                self.take_image(&mut wire, offset)?;
                self.position = Some(position);
            }
            _ if answer.starts_with("-NOPERM") => return Err(refused(&answer)),
            _ => return Err(Broken::Again(format!("cannot send its data now: {answer}"))),
        }
        self.stream(&mut wire)
    }

    /// Introduces this program as a replica.
    fn greet(&self, wire: &mut Wire) -> Result<(), Broken> {
        if let Some(words) = self.shared.cluster.request() {
            wire.send(&words)?;
            let answer = self.line(wire)?;
            if answer.starts_with("-ERR") || answer.starts_with("-WRONGPASS") {
                return Err(refused(&answer));
            }
        }
        let port = self.shared.port.to_string();
        let requests: [&[&[u8]]; 4] = [
            &[b"PING"],
            &[b"REPLCONF", b"listening-port", port.as_bytes()],
            &[b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"],
            // Valkey 9 sends fields that expire only to replicas that announce its version.
            &[b"REPLCONF", b"version", b"9.0.0"],
        ];
        for words in requests {
            wire.send(words)?;
            let answer = self.line(wire)?;
            if answer.starts_with("-NOAUTH") || answer.starts_with("-NOPERM") {
                return Err(refused(&answer));
            }
        }
        Ok(())
    }

    /// The next line that is not empty; an empty one only shows that the primary is alive.
    pub(super) fn line(&self, wire: &mut Wire) -> Result<String, Broken> {
        const LINE_BYTES_MAX: usize = 64 << 10;
        loop {
            while let Some(end) = wire.input.iter().position(|&byte| byte == b'\n') {
                let text: Vec<u8> = wire.input.drain(..=end).collect();
                let text = String::from_utf8_lossy(&text).trim_end().to_owned();
                if !text.is_empty() {
                    return Ok(text);
                }
            }
            if wire.input.len() > LINE_BYTES_MAX {
                return Err(Broken::Again("does not speak Redis's protocol".to_owned()));
            }
            self.check(wire)?;
            wire.read()?;
        }
    }

    /// Receives an image, and passes it on. The stream behind it begins at `offset`.
    fn take_image(&mut self, wire: &mut Wire, offset: u64) -> Result<(), Broken> {
        tracing::info!("{} sends an image, at offset {offset}", wire.address);
        let image = self.receive(wire)?;
        let prepared = wire.stream.socket().set_nonblocking(true);
        prepared.map_err(|error| again("has no connection", &error))?;
        self.holds = true;
        self.restore(wire, offset, image)?;
        let prepared = wire.stream.socket().set_nonblocking(false);
        prepared.map_err(|error| again("has no connection", &error))
    }

    /// Keeps the link alive while the image goes to the target.
    pub(super) fn attend(&self, wire: &mut Wire, offset: u64) -> Result<(), Broken> {
        self.check(wire)?;
        if wire.reported.elapsed() >= REPORT_PERIOD {
            wire.report(offset)?;
        }
        while wire.input.len() < AHEAD_MAX && wire.read()? {}
        Ok(())
    }

    /// Passes requests on.
    pub(super) fn push(
        &self,
        block: &Block,
        idle: &mut dyn FnMut() -> Result<(), Broken>,
    ) -> Result<(), Broken> {
        self.shared.feed.push(self.round, block, idle).map_err(|refused| match refused {
            Refused::Round => Broken::Anew("feeds a target that begins again".to_owned()),
            Refused::Ended(why) => why,
        })
    }

    /// Shows what the link is doing.
    pub(super) fn show(&self, phase: Phase) {
        self.link.show(phase);
    }

    /// Follows the stream.
    fn stream(&mut self, wire: &mut Wire) -> Result<(), Broken> {
        let Some(Position { offset, db, .. }) = self.position else { return Ok(()) };
        let limits = Limits { bulk_bytes_max: u32::MAX as usize, ..Limits::OPEN };
        let mut parser = Parser::new(limits);
        let mut batch = Batch::at(offset, db);
        let mut is_first = true;
        loop {
            self.check(wire)?;
            if is_first {
                // A primary that waits shows by empty lines that it is alive.
                let blanks = wire.input.iter().take_while(|&&byte| byte == b'\n').count();
                wire.input.drain(..blanks);
                is_first = wire.input.is_empty();
            }
            let (mut parsed, mut outcome) = (0, Ok(Step::Next));
            while let Some(used) = parser
                .parse(&mut wire.input[parsed..])
                .map_err(|error| Broken::Anew(format!("sends what is no request: {error}")))?
            {
                let request = &wire.input[parsed..parsed + used];
                let args: Vec<&[u8]> = parser
                    .args()
                    .iter()
                    .map(|range| request.get(range.clone()).unwrap_or_default())
                    .collect();
                parsed += used;
                outcome = batch.add(&args, used as u64, self.shared);
                if batch.moving {
                    self.link.moving.store(true, Ordering::Relaxed);
                }
                if !matches!(outcome, Ok(Step::Next)) {
                    break;
                }
            }
            wire.input.drain(..parsed);
            self.flush(wire, &mut batch)?;
            if matches!(outcome?, Step::Report) || wire.reported.elapsed() >= REPORT_PERIOD {
                wire.report(batch.settled().offset)?;
            }
            if parsed == 0 {
                wire.read()?;
            }
        }
    }

    /// Passes on what is whole.
    fn flush(&mut self, wire: &mut Wire, batch: &mut Batch) -> Result<(), Broken> {
        let (block, settled) = batch.take_whole();
        if !block.bytes.is_empty() {
            let offset = settled.offset;
            let mut idle = || {
                if wire.reported.elapsed() >= REPORT_PERIOD {
                    wire.report(offset)?;
                }
                if self.is_over() { Err(Broken::Over) } else { Ok(()) }
            };
            self.push(&block, &mut idle)?;
        }
        if let Some(position) = &mut self.position {
            (position.offset, position.db) = (settled.offset, settled.db);
        }
        self.show(Phase::Following { offset: settled.offset });
        Ok(())
    }
}

fn refused(answer: &str) -> Broken {
    Broken::Useless(format!("refuses this program: {answer} (see --user and --password)"))
}
