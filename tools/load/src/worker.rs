//! One thread: it sends the queries that are due, reads replies, and counts.
//!
//! A batch that is due goes to the connection that has been free the longest. If none is free, the
//! batch waits, and those after it; its latency still counts from its intended time.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use hdrhistogram::Histogram;

use crate::clock::{Clock, SECOND};
use crate::connection::Connection;
use crate::phases::Phases;
use crate::plan::{Plan, Rate};
use crate::requests::{FollowUp, Op, Requests, SentQuery, Verdict};
use crate::schedule::Schedule;
use crate::tally::Tally;
use crate::wait::{Ready, Waiter};

/// A batch sent later than this after its time, with a connection free, was sent late.
pub(crate) const LATE: u64 = 100_000;
/// How long a thread waits for replies after the last query.
const DRAIN: u64 = 10 * SECOND;
/// How often a thread leaves its sockets to publish its progress.
const LOOK: u64 = 20_000_000;
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// Shared by all threads of a measurement.
pub(crate) struct Common<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) clock: Clock,
    pub(crate) phases: &'a Phases,
    /// Raised to end the measurement early: Ctrl-C, or a connection that was lost.
    pub(crate) stop: &'a AtomicBool,
}

/// The progress of a thread.
#[derive(Debug, Clone)]
pub(crate) struct Live {
    pub(crate) answered: u64,
    /// Nanoseconds, to two digits.
    pub(crate) latencies: Histogram<u64>,
}

impl Live {
    pub(crate) fn new() -> Self {
        let latencies = Histogram::new_with_bounds(1_000, 3_600_000_000_000, 2)
            .expect("bounds and digits are constants that fit");
        Self { answered: 0, latencies }
    }
}

/// Queries that were due together and whose replies came together: they took equally long.
struct Alike {
    due: u64,
    op: Op,
    count: u64,
}

impl Alike {
    /// Counts the queries, whose replies came at `now`, and forgets them.
    fn count_in(&mut self, now: u64, tally: &mut Tally, live: &mut Live) {
        let count = std::mem::take(&mut self.count);
        if count > 0 {
            let latency = now.saturating_sub(self.due);
            tally.answered += count;
            tally.record_batch(self.due, latency, self.op, count);
            live.answered += count;
            live.latencies.saturating_record_n(latency, count);
        }
    }
}

/// One thread of a measurement.
pub(crate) struct Worker<'a> {
    common: &'a Common<'a>,
    connections: Vec<Connection>,
    /// Idle connections, the longest idle first.
    free: VecDeque<usize>,
    waiter: Waiter,
    schedule: Schedule,
    requests: Requests,
    tally: Tally,
    live: Live,
    shown: &'a Mutex<Live>,
    /// Whether the next batch has found no connection free.
    is_starved: bool,
    /// When a connection last became free.
    starved_until: u64,
    in_flight: usize,
    next_look: u64,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(
        common: &'a Common<'a>,
        connections: Vec<Connection>,
        schedule: Schedule,
        requests: Requests,
        shown: &'a Mutex<Live>,
    ) -> io::Result<Self> {
        let waiter = Waiter::new()?;
        for (number, connection) in connections.iter().enumerate() {
            waiter.add(connection.as_fd(), number)?;
        }
        Ok(Self {
            common,
            free: (0..connections.len()).collect(),
            connections,
            waiter,
            schedule,
            requests,
            tally: Tally::new(common.plan),
            live: Live::new(),
            shown,
            is_starved: false,
            starved_until: 0,
            in_flight: 0,
            next_look: 0,
        })
    }

    /// Runs to the end of the schedule, and waits for the last replies.
    pub(crate) fn run(mut self) -> Tally {
        let stopped_at = match self.serve() {
            Ok(stopped_at) => stopped_at,
            Err(error) => {
                self.tally.lost = Some(error.to_string());
                self.common.stop.store(true, Ordering::Relaxed);
                Some(self.common.clock.now())
            }
        };
        if let Some(now) = stopped_at {
            self.give_up(now);
        }
        self.show();
        self.tally
    }

    /// Returns when it gave up, if it did so before the last reply.
    fn serve(&mut self) -> io::Result<Option<u64>> {
        let clock = self.common.clock;
        let (mut ready, mut scratch) = (Vec::new(), vec![0; READ_BYTES]);
        loop {
            let now = clock.now();
            let due = self.send(now)?;
            if due.is_none() && self.in_flight == 0 {
                return Ok(None);
            }
            if now > self.schedule.end().saturating_add(DRAIN) {
                return Ok(Some(now));
            }
            if now >= self.next_look {
                self.assign_phases();
                self.next_look = now + LOOK;
                if self.common.stop.load(Ordering::Relaxed) {
                    return Ok(Some(now));
                }
            }
            let until = match due {
                Some(due) if !self.free.is_empty() => due.min(now + LOOK),
                _ => now + LOOK,
            };
            self.waiter.wait(&clock, until, &mut ready)?;
            for ready in ready.drain(..) {
                self.attend(ready, &mut scratch)?;
            }
        }
    }

    /// Sends batches that are due while connections are free; returns when the next one is due.
    fn send(&mut self, now: u64) -> io::Result<Option<u64>> {
        if self.is_starved {
            (self.is_starved, self.starved_until) = (false, now);
        }
        loop {
            let Some(due) = self.schedule.due(now) else { return Ok(None) };
            if due > now {
                return Ok(Some(due));
            }
            let Some(number) = self.free.pop_front() else {
                self.is_starved = true;
                return Ok(Some(due));
            };
            self.schedule.advance();
            self.send_batch(number, due)?;
        }
    }

    fn send_batch(&mut self, number: usize, due: u64) -> io::Result<()> {
        let connection = &mut self.connections[number];
        let batch = self.common.plan.pipeline;
        for _ in 0..batch {
            let query = self.requests.next();
            let count = self.requests.encode(query, connection.out());
            for number in 1..=count {
                connection.expect(SentQuery { due, query, is_last: number == count });
            }
        }
        self.flush(number)?;
        self.in_flight += batch;
        self.tally.sent += batch as u64;
        if self.common.plan.rate != Rate::Max {
            let lateness = self.common.clock.now().saturating_sub(due);
            if lateness > LATE && due <= self.starved_until {
                self.tally.held += batch as u64;
            } else if lateness > LATE {
                self.tally.late += batch as u64;
                self.tally.late_max = self.tally.late_max.max(lateness);
            }
        }
        Ok(())
    }

    /// Sends what a connection has to send, and watches for room where the system has none.
    fn flush(&mut self, number: usize) -> io::Result<()> {
        let connection = &mut self.connections[number];
        connection.flush()?;
        if connection.would_block {
            self.waiter.watch_room(connection.as_fd(), number, true)?;
        }
        Ok(())
    }

    fn attend(&mut self, ready: Ready, scratch: &mut [u8]) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(ready.number) else { return Ok(()) };
        if ready.writable {
            connection.flush()?;
            if !connection.would_block {
                self.waiter.watch_room(connection.as_fd(), ready.number, false)?;
            }
        }
        if !ready.readable {
            return Ok(());
        }
        let (tally, live, requests) = (&mut self.tally, &mut self.live, &mut self.requests);
        let clock = self.common.clock;
        let (mut answered, mut now) = (0, None);
        let mut alike = Alike { due: 0, op: Op::Write, count: 0 };
        let mut next = FollowUp::default();
        let received = connection.receive(scratch, |sent, reply| {
            let now = *now.get_or_insert_with(|| clock.now());
            let (verdict, more) = (requests.judge(sent.query, reply), next.queries.len());
            if matches!(verdict, Verdict::Good | Verdict::Missing) {
                requests.proceed(sent, reply, &mut next);
            }
            let is_done = sent.is_last && next.queries.len() == more;
            answered += usize::from(is_done);
            match verdict {
                Verdict::Good => {}
                Verdict::Missing => tally.missing += 1,
                Verdict::Refused(error) => return tally.refuse(error),
                Verdict::Wrong(what) => return tally.mistake(what),
            }
            let (due, op) = (sent.due, sent.query.op());
            if is_done {
                if (alike.due, alike.op) != (due, op) {
                    alike.count_in(now, tally, live);
                    (alike.due, alike.op) = (due, op);
                }
                alike.count += 1;
            }
        });
        alike.count_in(now.unwrap_or_default(), tally, live);
        self.in_flight -= answered;
        if !next.queries.is_empty() {
            connection.out().extend_from_slice(&next.bytes);
            next.queries.into_iter().for_each(|sent| connection.expect(sent));
            self.flush(ready.number)?;
        } else if answered > 0 && connection.waiting().is_empty() {
            self.free.push_back(ready.number);
        }
        received
    }

    /// Puts queries into phases as far as these are known, and publishes the progress.
    fn assign_phases(&mut self) {
        let known = self.common.phases.known_until();
        let tally = &mut self.tally;
        self.common.phases.with(|stretches| tally.assign(known, stretches));
        self.show();
    }

    fn show(&self) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.clone_from(&self.live);
    }

    /// A query without a reply took at least until now, and so did one that was not sent.
    fn give_up(&mut self, now: u64) {
        if self.common.plan.rate == Rate::Max {
            self.tally.unanswered += self.in_flight as u64;
            return;
        }
        let waiting = self.connections.iter().flat_map(|connection| connection.waiting());
        let last = waiting.filter(|sent| sent.is_last);
        let mut overdue: Vec<(u64, Op)> = last.map(|it| (it.due, it.query.op())).collect();
        while let Some(due) = self.schedule.due(now).filter(|&due| due <= now) {
            let batch = self.common.plan.pipeline;
            overdue.extend((0..batch).map(|_| (due, self.requests.next().op())));
            self.schedule.advance();
        }
        self.tally.unanswered += overdue.len() as u64;
        for (due, op) in overdue {
            self.tally.record(due, now.saturating_sub(due), op);
        }
    }
}
