//! When a leader has heard of most members.
//!
//! Openraft's metrics say how long ago that was *as they were published*, and are looked at some
//! time later. So a look tells two moments between which it was. The same moment is published again
//! whenever anything changes: taken for a later one each time, it would keep a leader without a
//! majority in the belief that it has a slow one.

use std::time::Duration;

use tokio::time::Instant;

/// What a figure in whole milliseconds may be off.
const ROUNDED: Duration = Duration::from_millis(2);

/// See the head of this file.
#[derive(Debug)]
pub(super) struct Heard {
    looked: Instant,
    /// It was between these; `None`: this member does not lead.
    between: Option<(Instant, Instant)>,
}

impl Heard {
    /// Nothing was published before that moment.
    pub(super) fn since(looked: Instant) -> Self {
        Self { looked, between: None }
    }

    /// When most members were heard last, at the latest.
    pub(super) fn at(&self) -> Option<Instant> {
        Some(self.between?.1)
    }

    /// The metrics say this now; `is_new`: they were published since the last look. Returns how
    /// long ago the time before was, if they were heard again.
    pub(super) fn look(
        &mut self,
        now: Instant,
        is_new: bool,
        age: Option<Duration>,
    ) -> Option<Duration> {
        let looked = std::mem::replace(&mut self.looked, now);
        let before = self.between;
        let Some(age) = age else {
            self.between = None;
            return None;
        };
        if !is_new && before.is_some() {
            return None;
        }
        let (from, to) = (looked.checked_sub(age + ROUNDED)?, now.checked_sub(age)?);
        match before {
            // It may be the same moment.
            Some((earliest, latest)) if from <= latest => {
                self.between = Some((earliest.max(from), latest.min(to).max(earliest)));
                None
            }
            _ => {
                self.between = Some((from, to));
                before.map(|(_, latest)| now - latest)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOKS: u64 = 100;

    /// The metrics of a leader that has heard at these moments, published at those, and looked at
    /// in intervals: how long it took from one time to the next, and when it was heard last.
    fn seen(heard: &[u64], published: &[u64]) -> (Vec<u64>, u64) {
        let begin = Instant::now();
        let at = |ms| begin + Duration::from_millis(ms);
        let (mut seen, mut last, mut told) = (Heard::since(begin), None, Vec::new());
        for now in (LOOKS..).step_by(LOOKS as usize).take(60) {
            let next = published.iter().copied().rfind(|&it| it <= now);
            let age = next.map(|next| {
                let heard = heard.iter().copied().rfind(|&it| it <= next).expect("one before");
                Duration::from_millis(next - heard)
            });
            let since = seen.look(at(now), next != last, age);
            told.extend(since.map(|it| it.as_millis() as u64));
            last = next;
        }
        (told, (seen.at().expect("it was heard") - begin).as_millis() as u64)
    }

    #[test]
    fn a_moment_that_is_told_again_is_no_later_one() {
        // Nobody is heard any more, and metrics are published at any time between two looks.
        let published: Vec<u64> = (0..50).map(|it| 105 + it * 100 + it * 37 % 100).collect();
        let (told, last) = seen(&[100], &published);
        assert!(told.is_empty(), "{told:?}");
        assert!((100..200).contains(&last), "{last}");
    }

    #[test]
    fn a_leader_that_is_heard_again_knows_it() {
        let heard = [100, 300, 500, 1900, 2100];
        let published = heard.map(|it| it + 3);
        let (told, last) = seen(&heard, &published);
        assert_eq!(told.len(), 4, "{told:?}");
        assert!(told[2] >= 1300, "{told:?}");
        assert!((2100..2200).contains(&last), "{last}");
    }

    #[test]
    fn one_that_is_heard_more_often_than_it_looks_falls_behind_by_two_looks_at_most() {
        let heard: Vec<u64> = (1..120).map(|it| it * 40).collect();
        for until in 20..120 {
            let (_, last) = seen(&heard[..until], &heard[..until]);
            let late = heard[until - 1].abs_diff(last);
            assert!(late <= 2 * LOOKS, "{late} ms");
        }
    }
}
