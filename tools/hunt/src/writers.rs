//! The writers: each sends its transactions in order, as fast as the server takes them, and can be
//! made to pause between two of them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::HuntError;
use crate::link::{Link, encode};
use crate::plan::Plan;
use crate::workload::Workload;

/// Transactions that a writer sends at once.
const DEPTH: u64 = 16;

/// The progress of the writers, and whether they may write.
pub(crate) struct Writers {
    sent: Vec<AtomicU64>,
    acknowledged: Vec<AtomicU64>,
    gate: Mutex<Gate>,
    changed: Condvar,
    /// Whether the writers end without waiting for replies.
    pub(crate) stop: AtomicBool,
}

#[derive(Default)]
struct Gate {
    closed: bool,
    /// Writers that stand at the closed gate.
    waiting: usize,
    /// Why a writer ended.
    failed: Option<HuntError>,
}

impl Writers {
    pub(crate) fn new(count: usize) -> Self {
        let zeros = || (0..count).map(|_| AtomicU64::new(0)).collect();
        Self {
            sent: zeros(),
            acknowledged: zeros(),
            gate: Mutex::default(),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
        }
    }

    pub(crate) fn sent(&self) -> Vec<u64> {
        self.sent.iter().map(|count| count.load(Ordering::SeqCst)).collect()
    }

    pub(crate) fn acknowledged(&self) -> Vec<u64> {
        self.acknowledged.iter().map(|count| count.load(Ordering::SeqCst)).collect()
    }

    /// Writes until told to stop; keeps the error for [`failure`](Self::failure).
    pub(crate) fn write(&self, plan: &Plan, workload: &Workload, writer: usize) {
        let outcome =
            Link::open(plan, &self.stop).and_then(|mut link| self.go(&mut link, workload, writer));
        if let Err(error) = outcome {
            if !self.stop.load(Ordering::SeqCst) {
                self.lock().failed.get_or_insert(error);
            }
            self.changed.notify_all();
        }
    }

    fn go(&self, link: &mut Link<'_>, workload: &Workload, writer: usize) -> Result<(), HuntError> {
        const DOING: &str = "writing transactions";
        while self.pass() {
            let first = self.sent[writer].load(Ordering::SeqCst) + 1;
            let (mut bytes, mut lengths) = (Vec::new(), Vec::new());
            for n in first..first + DEPTH {
                let requests = workload.transaction(writer, n);
                encode(&["MULTI"], &mut bytes);
                requests.iter().for_each(|request| encode(request, &mut bytes));
                encode(&["EXEC"], &mut bytes);
                lengths.push((n, requests.len() + 2));
            }
            self.sent[writer].store(first + DEPTH - 1, Ordering::SeqCst);
            link.send(&bytes, DOING)?;
            for (n, replies) in lengths {
                for _ in 0..replies {
                    let answer = link.reply(DOING)?;
                    answer.map_err(|answer| link.refused("a transaction", answer))?;
                }
                self.acknowledged[writer].store(n, Ordering::SeqCst);
            }
        }
        Ok(())
    }

    /// Waits at the gate; false: no more transactions.
    fn pass(&self) -> bool {
        let mut gate = self.lock();
        gate.waiting += 1;
        self.changed.notify_all();
        while gate.closed && !self.stop.load(Ordering::SeqCst) {
            gate = self.changed.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
        gate.waiting -= 1;
        !self.stop.load(Ordering::SeqCst)
    }

    /// Waits until all writers stand still, with all that they sent acknowledged.
    pub(crate) fn pause(&self, plan: &Plan) -> Result<(), HuntError> {
        self.lock().closed = true;
        self.until(plan, "waiting for the writers to pause", |gate| gate.waiting == self.sent.len())
    }

    /// Lets the writers go on, and waits until each has one more transaction acknowledged.
    pub(crate) fn resume(&self, plan: &Plan) -> Result<(), HuntError> {
        let before = self.acknowledged();
        self.lock().closed = false;
        self.changed.notify_all();
        self.until(plan, "waiting for transactions between images", |_| {
            self.acknowledged().iter().zip(&before).all(|(now, before)| now > before)
        })
    }

    pub(crate) fn end(&self) {
        self.stop.store(true, Ordering::SeqCst);
        // Under the lock, so that no writer misses it between its look and its sleep.
        self.lock().closed = false;
        self.changed.notify_all();
    }

    /// Why a writer has ended, if one has.
    pub(crate) fn failure(&self) -> Result<(), HuntError> {
        self.lock().failed.take().map_or(Ok(()), Err)
    }

    fn until(
        &self,
        plan: &Plan,
        doing: &str,
        done: impl Fn(&Gate) -> bool,
    ) -> Result<(), HuntError> {
        let deadline = Instant::now() + plan.patience + Duration::from_secs(1);
        let mut gate = self.lock();
        loop {
            if let Some(error) = gate.failed.take() {
                return Err(error);
            }
            if done(&gate) {
                return Ok(());
            }
            if Instant::now() > deadline {
                let what = format!("not done after {:?} (--patience)", plan.patience);
                return Err(HuntError::Broken {
                    target: plan.target.clone(),
                    doing: doing.to_owned(),
                    error: std::io::Error::new(std::io::ErrorKind::TimedOut, what),
                });
            }
            let look = Duration::from_millis(5);
            gate = self.changed.wait_timeout(gate, look).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
