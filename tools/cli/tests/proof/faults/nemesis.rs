//! What goes wrong, and when: a schedule, drawn by a seed.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use stillframe_raft_net::proxy::Faults;

use super::network::Link;
use crate::support::Random;

/// A member, as a schedule names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whom {
    /// The one that leads when it happens, if one does.
    Leader,
    /// The one after that.
    Follower,
    /// That at a place.
    Place(usize),
}

/// Which way the network fails, seen from the member that is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// What it sends.
    Out,
    /// What is sent to it.
    In,
    /// Both.
    Both,
    /// Both, and only between it and the next one.
    Next,
}

/// Something that goes wrong for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// kill -9, and a start at the end.
    Kill,
    /// kill -9 of all.
    KillAll,
    /// SIGTERM, and a start at the end.
    End,
    /// SIGSTOP, and SIGCONT at the end.
    Stop,
    /// Bytes stay where they are, and arrive at the end.
    Stall(Side),
    /// Bytes come so much later, each connection's by a time of its own.
    Delay(Side, u64),
    /// At most this number of bytes a second.
    Throttle(Side, u64),
    /// Connections are refused, and those that were there are cut.
    Refuse(Side),
    /// Connections are cut once.
    Cut(Side),
    /// All that it sends comes twice.
    Double(Side),
    /// A bit is flipped.
    Damage(Side),
    /// No file may grow beyond so many bytes: a full disk.
    FullDisk(u64),
    /// This number of syncs fail.
    FailSyncs(i64),
    /// The clock of the day jumps by so many milliseconds, and stays.
    Clock(i64),
    /// BGSAVE.
    Image,
    /// The lead is handed on to another.
    Transfer,
    /// kill -9, and a start in another directory.
    Directory(Other),
    /// kill -9, a copy of the directory for later, and a start.
    Keep,
}

/// The directory in which a member is started in place of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Other {
    /// An empty one.
    Empty,
    /// A copy of that of the next member.
    Copied,
    /// That of the next member, which gets this one's.
    Swapped,
    /// Its own, as it was kept.
    Earlier,
}

/// A fault at its time, in milliseconds of the round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) at: u64,
    pub(super) lasts: u64,
    pub(super) whom: Whom,
    pub(super) fault: Fault,
}

impl Step {
    pub(super) fn new(at: u64, lasts: u64, whom: Whom, fault: Fault) -> Self {
        Self { at, lasts, whom, fault }
    }
}

/// What a schedule may draw from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Means {
    /// Clocks jump and syncs fail.
    pub(super) shim: bool,
}

/// The faults of a round of so many milliseconds.
pub(super) fn schedule(random: &mut Random, length: u64, means: Means) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut at = 200;
    while at < length {
        let longest = random.pick(&[200, 900, 2_000, 3_500]);
        let lasts = 50 + random.below(longest) as u64;
        let whom = match random.below(2) {
            0 => Whom::Leader,
            _ => Whom::Place(random.below(3)),
        };
        let fault = fault(random, means);
        steps.push(Step { at, lasts: lasts.min(length - at), whom, fault });
        // Some come together, some after a while of peace.
        let pause = random.pick(&[80, 900, 900, 2_000]);
        at += random.below(pause) as u64;
    }
    steps
}

fn fault(random: &mut Random, means: Means) -> Fault {
    let side = random.pick(&[Side::Out, Side::In, Side::Both, Side::Both, Side::Next]);
    match random.below(22) {
        0..3 => Fault::Kill,
        3 => Fault::KillAll,
        4 => Fault::End,
        5..8 => Fault::Stop,
        8..11 => Fault::Stall(side),
        11 => Fault::Delay(side, random.pick(&[3, 30, 150])),
        12 => Fault::Throttle(side, random.pick(&[20_000, 200_000])),
        13 => Fault::Refuse(side),
        14 => Fault::Cut(side),
        15 => Fault::Double(side),
        16 => Fault::Damage(side),
        17 => Fault::FullDisk(random.below(400_000) as u64),
        18 if means.shim => Fault::FailSyncs(1 + random.below(3) as i64),
        19 if means.shim => Fault::Clock(random.pick(&[-3_000, -700, 700, 3_000, 25_000])),
        20 => Fault::Transfer,
        _ => Fault::Image,
    }
}

/// A schedule in which a member is started in another directory, of a kind, of [`DIRECTORIES`].
pub(super) fn directories(random: &mut Random, kind: usize) -> Vec<Step> {
    let victim = random.below(3);
    let [whom, lags, leads] = [0, 1, 2].map(|next| Whom::Place((victim + next) % 3));
    let other = |at, other| Step::new(at, 4_000 - at, whom, Fault::Directory(other));
    match kind {
        0 => vec![other(300, Other::Swapped)],
        1 => vec![other(300, Other::Copied)],
        2 => vec![other(300, Other::Empty)],
        3 => vec![Step::new(300, 0, whom, Fault::Keep), other(2_000, Other::Earlier)],
        // Those that remain are one that lags, and one that has lost what both others had.
        _ => vec![
            Step::new(200, 1_000, lags, Fault::Stop),
            other(1_100, Other::Empty),
            Step::new(1_150, 2_500, leads, Fault::Stop),
        ],
    }
}

/// Cases of [`directories`]. A log without its end is for `raft::directories`.
pub(super) const DIRECTORIES: usize = 5;

/// Which links a fault of the network meets.
pub(super) fn links(side: Side, place: usize, members: usize) -> Vec<Link> {
    let others = || (0..members).filter(move |&other| other != place);
    let (out, back) = (others().map(|it| (place, it)), others().map(|it| (it, place)));
    let next = (place + 1) % members;
    match side {
        Side::Out => out.collect(),
        Side::In => back.collect(),
        Side::Both => out.chain(back).collect(),
        Side::Next => vec![(place, next), (next, place)],
    }
}

/// What bytes meet, for the faults that are about bytes, beside what they meet without.
pub(super) fn weather(fault: Fault, calm: &Faults) -> Option<(Side, Faults)> {
    let ms = Duration::from_millis;
    let calm = calm.clone();
    match fault {
        Fault::Stall(side) => Some((side, Faults { stalled: true, ..calm })),
        Fault::Delay(side, by) => {
            Some((side, Faults { delay: ms(by / 3), spread: ms(by), ..calm }))
        }
        Fault::Throttle(side, bandwidth) => {
            Some((side, Faults { bandwidth: Some(bandwidth), ..calm }))
        }
        _ => None,
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { at, lasts, whom, fault } = self;
        write!(f, "at {at} ms, for {lasts} ms: {fault:?} of {whom:?}")
    }
}
