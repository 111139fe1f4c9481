//! What a read costs: short loops of random reads between stages, with the caches as the load left
//! them, while an image is held and while none is.

use std::hint::black_box;
use std::time::Instant;

use crate::case::Case;
use crate::trial::subject::State;
use stillframe_measure::draw::Rng;

/// Times of reads, in nanoseconds.
pub(crate) struct Reads {
    items: Vec<u32>,
    next: usize,
    half: bool,
    /// While an image was held.
    pub(crate) held_ns: Vec<f64>,
    /// While none was.
    pub(crate) idle_ns: Vec<f64>,
}

impl Reads {
    const ITEMS: usize = 1 << 16;
    const PROBE: usize = 1 << 12;

    pub(crate) fn new(case: &Case) -> Self {
        let mut rng = Rng(case.seed ^ 0x5ead);
        let items = (0..Self::ITEMS).map(|_| rng.below(case.items()) as u32).collect();
        let (held_ns, idle_ns) = (Vec::new(), Vec::new());
        Self { items, next: 0, half: case.item_bytes == 4, held_ns, idle_ns }
    }

    pub(crate) fn probe(&mut self, state: &impl State, held: bool) {
        let items = &self.items[self.next..self.next + Self::PROBE];
        self.next = (self.next + Self::PROBE) % Self::ITEMS;
        let started = Instant::now();
        let sum = if self.half {
            items.iter().fold(0, |sum, &item| sum ^ u64::from(state.read_u32(item as usize)))
        } else {
            items.iter().fold(0, |sum, &item| sum ^ state.read(item as usize))
        };
        black_box(sum);
        let each_ns = started.elapsed().as_nanos() as f64 / Self::PROBE as f64;
        if held { &mut self.held_ns } else { &mut self.idle_ns }.push(each_ns);
    }
}
