//! Aligned memory in which bytes are gathered for one large write, as writes past the page cache
//! need it.

use std::fmt;

/// Memory that starts at a multiple of [`Stage::ALIGN`]. Kept from one write to the next: fresh
/// memory is slow to touch.
pub struct Stage {
    memory: Box<[u8]>,
    start: usize,
    filled: usize,
}

impl Stage {
    /// Positions, lengths and addresses are multiples of this: as much as any disk asks for.
    pub const ALIGN: usize = 4096;

    /// Room for this many bytes, allocated and touched.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let memory = vec![1; bytes + Self::ALIGN].into_boxed_slice();
        let start = memory.as_ptr().align_offset(Self::ALIGN).min(Self::ALIGN);
        Self { memory, start, filled: 0 }
    }

    /// Copies as many of `bytes` as there is room for, and returns how many.
    pub fn take(&mut self, bytes: &[u8]) -> usize {
        let from = self.start + self.filled;
        let end = self.memory.len() - (Self::ALIGN - self.start);
        let taken = bytes.len().min(end - from);
        self.memory[from..from + taken].copy_from_slice(&bytes[..taken]);
        self.filled += taken;
        taken
    }

    /// All the room, for others to fill: what was gathered is gone.
    pub fn room(&mut self) -> &mut [u8] {
        self.filled = 0;
        let end = self.memory.len() - (Self::ALIGN - self.start);
        &mut self.memory[self.start..end]
    }

    /// Whether there is no room left.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.filled + Self::ALIGN == self.memory.len()
    }

    /// What was gathered.
    #[must_use]
    pub fn gathered(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.filled]
    }

    /// Makes all the room free again.
    pub fn clear(&mut self) {
        self.filled = 0;
    }
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage").field("filled", &self.filled).finish_non_exhaustive()
    }
}
