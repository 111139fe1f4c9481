//! What a seed draws: the group, its network, what clients do, and what goes wrong when.

use stillframe_peers::Random;

use crate::member::{End, Other};
use crate::network::Quality;

/// A run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// Those that begin the group, and those that may join it later.
    pub(crate) members: u64,
    pub(crate) spares: u64,
    pub(crate) clients: usize,
    /// Milliseconds in which clients call.
    pub(crate) lasts: u64,
    pub(crate) quality: Quality,
    pub(crate) sync_ms: u64,
    pub(crate) election_ms: u64,
    pub(crate) log_bytes: u64,
    pub(crate) entries_kept: u64,
    /// Of a thousand calls so many write a large value, of at most so many bytes.
    pub(crate) large: (usize, usize),
    /// Pause of a client between calls, at most.
    pub(crate) pause_ms: usize,
    /// Keys are others after so long: histories of few calls are judged soon.
    pub(crate) era_ms: u64,
    /// Half of the clients stay at one member each and read, the others write: who has lost the
    /// lead without knowing it answers reads alone. A write that came to it would hold them up.
    pub(crate) is_apart: bool,
    /// How long a leader may take until it knows that most members do not hear it.
    pub(crate) patience_ms: u64,
    pub(crate) faults: Vec<Fault>,
    /// Members that follow are away now and then, and nothing else goes wrong: the leader stays.
    pub(crate) is_calm: bool,
}

/// When the first leader is there, whatever a start takes.
pub(crate) const SETTLED: u64 = 8000;

/// The time of two looks of a member whom it has heard, and of a turn.
pub(crate) const LOOKS: u64 = 210;

/// Something that goes wrong.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) at: u64,
    pub(crate) what: What,
}

#[derive(Debug, Clone)]
pub(crate) enum What {
    /// Nothing passes from one to another for so long.
    Cut { from: u64, to: u64, ms: u64 },
    /// A member hears nobody, nor is it heard.
    Isolate { who: u64, ms: u64 },
    /// A member ends, and is started again after so long.
    End { who: u64, how: End, ms: u64 },
    /// The one that leads ends.
    EndLeader { how: End, ms: u64 },
    /// The last member that does not lead is cut off from the others.
    IsolateFollower { ms: u64 },
    /// The one that leads is cut off from the others, and not from clients.
    IsolateLeader { ms: u64 },
    /// All lose their power at once.
    EndAll { ms: u64 },
    /// A member stands still.
    Stand { who: u64, ms: u64 },
    /// The one that leads stands still.
    StandLeader { ms: u64 },
    /// The machine of the one that leads stands still, and with it its clock, which then shows that
    /// others were heard of late; it is out of their reach for a while longer.
    SuspendLeader { ms: u64, cut_ms: u64 },
    /// The one that leads hears the others, and is not heard, or the reverse.
    CutLeader { hears: bool, ms: u64 },
    /// The one that leads is cut off, and everything is asked of it.
    AskCutLeader { ms: u64 },
    /// Clients that stay at a member call the one that leads, and the others do not reach it.
    PartClients { ms: u64 },
    /// Its unix time jumps.
    Jump { who: u64, by_ms: i64 },
    /// A sync of its disk takes so long, for a while.
    SlowDisk { who: u64, sync_ms: u64, ms: u64 },
    /// The network is as slow as this, for a while.
    SlowNetwork { quality: Quality, ms: u64 },
    /// The lead is handed on to a member.
    Transfer { to: u64 },
    /// A member is let go, or taken in if it was let go.
    Change { who: u64 },
    /// A member ends, and is started with another disk.
    Directory { who: u64, other: Other },
    /// The disk of a member has room for so many bytes more, for a while.
    FullDisk { who: u64, bytes: u64, ms: u64 },
    /// A call of a member's disk fails, behind so many others.
    FailCall { who: u64, behind: u64 },
    /// Images are asked for.
    Image { who: u64 },
}

impl Plan {
    pub(crate) fn draw(seed: u64) -> Self {
        let random = &mut Random::with_seed(seed);
        let members = random.pick(&[3, 3, 3, 3, 5]);
        let spares = random.pick(&[0, 0, 1, 2]);
        let lasts = random.pick(&[12_000, 20_000, 40_000]);
        let quality = Quality {
            latency: random.pick(&[1, 1, 2, 5, 20]),
            jitter: random.pick(&[0, 1, 3, 20]),
            bandwidth: random.pick(&[1 << 20, 100 << 10, 34 << 10, 4 << 10]),
            loss: random.pick(&[0, 0, 1, 10]),
            is_fifo: random.below(2) == 0,
        };
        let largest: usize = match quality.bandwidth {
            bandwidth if bandwidth >= 1 << 20 => 64 << 20,
            bandwidth if bandwidth >= 34 << 10 => 8 << 20,
            _ => 1 << 20,
        };
        let large = match random.below(4) {
            0 => (random.pick(&[3, 20]), largest >> (3 * random.below(3))),
            1 => (100, 100 << 10),
            _ => (0, 1),
        };
        let is_calm = random.below(6) == 0;
        // Something lost is late by most of a short timeout, and the leader alone with one other.
        let quality = if is_calm { Quality { loss: 0, ..quality } } else { quality };
        let election_ms = random.pick(&[300, 1000, 1000, 1000, 2000]);
        let election_ms = if is_calm { election_ms.max(1000) } else { election_ms };
        let is_apart = !is_calm && random.below(5) < 2;
        let faults = match is_calm {
            true => calm(random, lasts),
            false => {
                faults(random, members + spares, lasts, quality, is_apart.then_some(election_ms))
            }
        };
        Self {
            seed,
            members,
            spares,
            clients: 2 + random.below(7),
            lasts,
            quality,
            sync_ms: random.pick(&[1, 1, 3, 10, if is_calm { 10 } else { election_ms / 5 }]),
            election_ms,
            log_bytes: random.pick(&[1 << 20, 1 << 20, 64 << 20]),
            entries_kept: random.pick(&[0, 10, 1000]),
            large,
            pause_ms: random.pick(&[5, 20, 100, 400]),
            era_ms: if is_apart { 10_000 } else { 3000 },
            is_apart,
            patience_ms: 10 * election_ms + LOOKS,
            faults,
            is_calm,
        }
    }
}

impl Plan {
    /// Nothing goes wrong in a group of three.
    pub(crate) fn quiet() -> Self {
        let quality = Quality { latency: 1, jitter: 0, bandwidth: 1 << 20, loss: 0, is_fifo: true };
        Self {
            seed: 1,
            members: 3,
            spares: 0,
            clients: 3,
            lasts: 12_000,
            quality,
            sync_ms: 1,
            election_ms: 1000,
            log_bytes: 1 << 20,
            entries_kept: 0,
            large: (0, 1),
            pause_ms: 20,
            era_ms: 3000,
            is_apart: false,
            patience_ms: 1000 + LOOKS,
            faults: Vec::new(),
            is_calm: false,
        }
    }
}

/// One member that follows is away now and then.
fn calm(random: &mut Random, lasts: u64) -> Vec<Fault> {
    let mut away = |at| {
        let ms = 300 + random.below(6000) as u64;
        Fault { at, what: What::IsolateFollower { ms } }
    };
    (SETTLED..lasts).step_by(10_000).map(&mut away).collect()
}

/// Kinds of faults.
const KINDS: usize = 19;

/// What goes wrong; each kind of fault is there or not.
fn faults(
    random: &mut Random,
    members: u64,
    lasts: u64,
    quality: Quality,
    apart: Option<u64>,
) -> Vec<Fault> {
    let drawn = match apart {
        Some(_) => random.next() & random.next() & random.next(),
        None => random.next() | random.next(),
    };
    let kinds: Vec<usize> = (0..KINDS).filter(|kind| drawn >> kind & 1 == 1).collect();
    let pause = random.pick(&[500, 1500, 4000]);
    let mut faults = Vec::new();
    let mut at = 2500 + random.below(pause) as u64;
    while at < lasts && (!kinds.is_empty() || apart.is_some()) {
        let loses = apart.filter(|_| kinds.is_empty() || random.below(3) == 0);
        if let Some(election_ms) = loses {
            let (lost, ms) = lost_lead(random, at, election_ms);
            faults.extend(lost);
            at += ms + random.below(pause) as u64;
            continue;
        }
        let kind = random.pick(&kinds);
        faults.extend(fault(random, kind, members, quality).map(|what| Fault { at, what }));
        at += 100 + random.below(pause) as u64;
    }
    faults
}

/// Another member is elected while the leader does not know it. Clients that stay at a member read
/// there, and the others write elsewhere: nothing that was in flight is left, which would hold up
/// those reads. How long it takes, too.
fn lost_lead(random: &mut Random, at: u64, election_ms: u64) -> (Vec<Fault>, u64) {
    let known = 50 + random.below(300) as u64;
    let ms = 2 * election_ms + random.below(3000) as u64;
    let short = election_ms * 7 / 10;
    let (first, whole) = match random.below(6) {
        0..3 => {
            let cut_ms = 300 + random.below(2000) as u64;
            (What::SuspendLeader { ms, cut_ms }, ms + cut_ms)
        }
        // Heard late, it waits longer for the others the next time.
        3 => (What::IsolateLeader { ms: short }, short + 150 + ms),
        4 => (What::CutLeader { hears: random.below(2) == 0, ms }, ms),
        _ => (What::StandLeader { ms }, ms),
    };
    let again = match first {
        What::IsolateLeader { .. } => {
            let at = at + known + short + 20 + random.below(130) as u64;
            Some(Fault { at, what: What::IsolateLeader { ms } })
        }
        _ => None,
    };
    let whole = known + whole;
    let parts = Fault { at, what: What::PartClients { ms: whole } };
    let first = Fault { at: at + known, what: first };
    ([parts, first].into_iter().chain(again).collect(), whole)
}

fn fault(random: &mut Random, kind: usize, members: u64, quality: Quality) -> Option<What> {
    let [who, to] = [(); 2].map(|()| 1 + random.below(members as usize) as u64);
    let ms = random.pick(&[30, 200, 700, 1500, 3000, 6000]) + random.below(200) as u64;
    let how = random.pick(&[End::Kill, End::Power]);
    Some(match kind {
        0 if who != to => What::Cut { from: who, to, ms },
        1 => What::Isolate { who, ms },
        2 => What::End { who, how, ms },
        3 => What::EndLeader { how, ms },
        4 => What::IsolateLeader { ms },
        5 if random.below(3) == 0 => What::EndAll { ms },
        6 => What::Stand { who, ms },
        7 => What::Jump { who, by_ms: random.pick(&[-3_600_000, -5000, 700, 86_400_000]) },
        8 => What::SlowDisk { who, sync_ms: random.pick(&[50, 300, 900]), ms },
        9 => {
            let bandwidth = random.pick(&[1 << 10, 4 << 10, 30 << 10]);
            What::SlowNetwork { quality: Quality { bandwidth, ..quality }, ms }
        }
        10 => What::Transfer { to },
        11 => What::StandLeader { ms },
        12 => What::Change { who },
        13 => {
            let others = [Other::Empty, Other::Joins, Other::Copied, Other::Earlier];
            What::Directory { who, other: random.pick(&others) }
        }
        14 => What::FullDisk { who, bytes: random.below(400_000) as u64, ms },
        15 => What::FailCall { who, behind: random.below(40) as u64 },
        16 => What::Image { who },
        17 => What::CutLeader { hears: random.below(2) == 0, ms },
        18 => What::SuspendLeader { ms, cut_ms: random.below(2000) as u64 },
        _ => return None,
    })
}
