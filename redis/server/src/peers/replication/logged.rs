//! What of its primary's stream a replica has on its disk, for WAITAOF at the primary.

use std::collections::VecDeque;

/// Most marks at a time. Beyond, the last one moves on: reports become coarser, and stay true.
const MARKS_MAX: usize = 1024;

/// Which record of the log holds which part of the stream, and how much of that is on the disk.
#[derive(Default)]
pub(crate) struct Logged {
    marks: VecDeque<Mark>,
    offset: Option<u64>,
}

/// The stream up to `offset` is in the records up to `record`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) record: u64,
    pub(crate) offset: u64,
}

impl Logged {
    /// Notes how far stream and log are.
    pub(crate) fn add(&mut self, mark: Mark) {
        let last = self.marks.back().map(|last| last.offset).or(self.offset);
        if last > Some(mark.offset) {
            *self = Self::default(); // another stream
        }
        let is_full = self.marks.len() == MARKS_MAX;
        match self.marks.back_mut() {
            _ if last == Some(mark.offset) => {}
            Some(back) if is_full => *back = mark,
            _ => self.marks.push_back(mark),
        }
    }

    /// The offset up to which the stream is on the disk, if the records up to `durable` are.
    pub(crate) fn offset(&mut self, durable: u64) -> Option<u64> {
        while let Some(mark) = self.marks.pop_front_if(|mark| mark.record <= durable) {
            self.offset = Some(mark.offset);
        }
        self.offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(marks: impl IntoIterator<Item = [u64; 2]>) -> Logged {
        let mut logged = Logged::default();
        marks.into_iter().for_each(|[record, offset]| logged.add(Mark { record, offset }));
        logged
    }

    #[test]
    fn an_offset_counts_once_its_record_is_on_the_disk() {
        let mut logged = marked([[0, 100], [1, 130], [1, 144], [3, 150]]);
        let found = [0, 1, 2, 3, 9].map(|durable| logged.offset(durable));
        assert_eq!(found, [100, 144, 144, 150, 150].map(Some));
        assert_eq!(marked([]).offset(7), None);
    }

    #[test]
    fn another_stream_begins_anew() {
        let mut logged = marked([[1, 1000], [2, 1100]]);
        assert_eq!(logged.offset(1), Some(1000));
        logged.add(Mark { record: 3, offset: 50 });
        assert_eq!([logged.offset(2), logged.offset(3)], [None, Some(50)]);
        logged.add(Mark { record: 4, offset: 20 });
        assert_eq!(logged.offset(4), Some(20));
    }

    #[test]
    fn marks_are_bounded_and_never_promise_too_much() {
        let most = MARKS_MAX as u64;
        let mut logged = marked((1..=2 * most).map(|at| [at, 10 * at]));
        assert_eq!(logged.marks.len(), MARKS_MAX);
        assert_eq!(logged.offset(most + 5), Some(10 * (most - 1)));
        assert_eq!(logged.offset(2 * most), Some(20 * most));
    }
}
