//! Long texts that replies contain by reference, so that nobody copies them before they are
//! written.

use std::sync::Arc;

/// The texts that replies in a buffer lack, each to be written before the byte at its place.
#[derive(Debug, Default)]
pub struct Insets {
    /// Places and texts, in order.
    insets: Vec<(usize, Arc<Vec<u8>>)>,
    bytes: usize,
}

impl Insets {
    /// Puts `text` before the byte at `place` of the buffer, which lies behind all so far.
    pub(crate) fn add(&mut self, place: usize, text: &Arc<Vec<u8>>) {
        self.bytes += text.len();
        self.insets.push((place, Arc::clone(text)));
    }

    /// Whether the replies lack nothing.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.insets.is_empty()
    }

    /// Bytes of all texts.
    #[inline]
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets all texts.
    pub fn clear(&mut self) {
        self.insets.clear();
        self.bytes = 0;
    }

    /// The replies in `buffer` from byte `start` on, which lies before all places: its parts and
    /// the texts between them.
    pub fn pieces<'a>(&'a self, buffer: &'a [u8], start: usize) -> impl Iterator<Item = &'a [u8]> {
        let mut start = start;
        let within = self.insets.iter().flat_map(move |(place, text)| {
            let part = &buffer[start..*place];
            start = *place;
            [part, &text[..]]
        });
        let last = self.insets.last().map_or(start, |&(place, _)| place);
        within.chain([&buffer[last..]]).filter(|piece| !piece.is_empty())
    }
}
