//! Waiting for a time to the microsecond, or for a socket, whichever is first.
//!
//! A sleep ends late: by the kernel's timer slack (50 us, set to 1 ns here) and by the time to wake
//! a thread, some 5 us on bare metal and up to 50 us on a virtual machine. So the thread sleeps
//! until a margin before the time, then polls clock and sockets in turn. The margin follows how
//! late sleeps have lately ended, between 5 and 100 us. Each wait burns that much of the core, or
//! all of it if queries are due closer together.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::clock::{Clock, SECOND};

const MARGIN_MIN: u64 = 5_000;
const MARGIN_MAX: u64 = 100_000;
const EVENTS_MAX: usize = 256;

/// An event of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ready {
    /// Number of the socket.
    pub(crate) number: usize,
    /// Bytes can be read, or the end of the stream.
    pub(crate) readable: bool,
    /// Output that was blocked can go on.
    pub(crate) writable: bool,
}

/// Sockets and the clock.
pub(crate) struct Waiter {
    epoll: OwnedFd,
    events: Vec<Event>,
    margin: u64,
}

impl Waiter {
    pub(crate) fn new() -> io::Result<Self> {
        // For this thread alone. Where the kernel has no timer slack, the margin grows instead.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        Ok(Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(EVENTS_MAX),
            margin: MARGIN_MAX / 2,
        })
    }

    /// Watches a socket for what can be read.
    pub(crate) fn add(&self, socket: impl AsFd, number: usize) -> io::Result<()> {
        let data = EventData::new_u64(number as u64);
        Ok(epoll::add(&self.epoll, socket, data, EventFlags::IN)?)
    }

    /// Begins or ends to watch a socket for room to write as well.
    pub(crate) fn watch_room(
        &self,
        socket: impl AsFd,
        number: usize,
        room: bool,
    ) -> io::Result<()> {
        let data = EventData::new_u64(number as u64);
        let flags = if room { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN };
        Ok(epoll::modify(&self.epoll, socket, data, flags)?)
    }

    /// Returns when something is ready, or at the margin before `until`; at once if that is past.
    pub(crate) fn wait(
        &mut self,
        clock: &Clock,
        until: u64,
        ready: &mut Vec<Ready>,
    ) -> io::Result<()> {
        let now = clock.now();
        if let Some(sleep) = until.checked_sub(now + self.margin).filter(|&sleep| sleep > 0) {
            let timeout =
                Timespec { tv_sec: (sleep / SECOND) as i64, tv_nsec: (sleep % SECOND) as _ };
            // Of epoll's own waits only those of Linux 5.11 count in less than milliseconds.
            let mut sockets = [PollFd::new(&self.epoll, PollFlags::IN)];
            match poll(&mut sockets, Some(&timeout)) {
                Ok(0) => self.learn(clock.now().saturating_sub(now + sleep)),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.events.clear();
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&at_once)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        ready.extend(self.events.iter().map(|event| {
            let flags = event.flags;
            Ready {
                number: event.data.u64() as usize,
                readable: flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR),
                writable: flags.contains(EventFlags::OUT),
            }
        }));
        Ok(())
    }

    /// Follows late sleeps quickly and early ones slowly: a late sleep costs precision, a wide
    /// margin only time.
    fn learn(&mut self, late: u64) {
        let wanted = (late + late / 4).clamp(MARGIN_MIN, MARGIN_MAX);
        self.margin = match wanted > self.margin {
            true => self.margin + (wanted - self.margin) / 4,
            false => self.margin - (self.margin - wanted) / 32,
        };
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_margin_follows_what_sleeps_are_late_and_stays_in_bounds() {
        let mut waiter = Waiter::new().expect("an epoll");
        (0..500).for_each(|_| waiter.learn(0));
        assert!(waiter.margin < MARGIN_MIN + 100, "{}", waiter.margin);
        (0..40).for_each(|_| waiter.learn(40_000));
        assert!((45_000..=50_000).contains(&waiter.margin), "{}", waiter.margin);
        (0..100).for_each(|_| waiter.learn(1 << 40));
        assert!(waiter.margin <= MARGIN_MAX);
    }

    #[test]
    fn a_wait_ends_before_its_time_by_no_more_than_the_margin() {
        let clock = Clock::starting_in(Duration::ZERO);
        let mut waiter = Waiter::new().expect("an epoll");
        for step in 1..20 {
            let until = clock.now() + step * 100_000;
            waiter.wait(&clock, until, &mut Vec::new()).expect("a wait");
            assert!(clock.now() + MARGIN_MAX >= until);
        }
    }
}
