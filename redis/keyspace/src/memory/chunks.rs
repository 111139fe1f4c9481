//! Arrays of numbers that grow chunk by chunk and copy nothing: a `Vec` of a hundred million slots
//! would stop the writer each time it doubles.

const CHUNK: usize = if cfg!(any(test, miri)) { 8 } else { 1024 };

/// A stack, also addressed by position.
#[derive(Default)]
pub(crate) struct Stack {
    chunks: Vec<Box<[u32]>>,
    len: usize,
}

impl Stack {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, at: usize) -> u32 {
        self.chunks[at / CHUNK][at % CHUNK]
    }

    pub(crate) fn set(&mut self, at: usize, number: u32) {
        self.chunks[at / CHUNK][at % CHUNK] = number;
    }

    pub(crate) fn push(&mut self, number: u32) {
        if self.len == self.chunks.len() * CHUNK {
            self.chunks.push(vec![0; CHUNK].into_boxed_slice());
        }
        self.len += 1;
        self.set(self.len - 1, number);
    }

    pub(crate) fn pop(&mut self) -> Option<u32> {
        self.len = self.len.checked_sub(1)?;
        let number = self.get(self.len);
        // One empty chunk stays, so that a stack at a boundary does not allocate at every step.
        if self.len + 2 * CHUNK <= self.chunks.len() * CHUNK {
            self.chunks.pop();
        }
        Some(number)
    }
}

/// A number per position; chunks that were never written take no memory.
#[derive(Default)]
pub(crate) struct Sparse {
    chunks: Vec<Option<Box<[u32]>>>,
}

impl Sparse {
    /// The number last set at this position.
    pub(crate) fn get(&self, at: usize) -> u32 {
        let chunk = self.chunks.get(at / CHUNK).and_then(Option::as_ref);
        chunk.map_or(0, |chunk| chunk[at % CHUNK])
    }

    pub(crate) fn set(&mut self, at: usize, number: u32) {
        if at / CHUNK >= self.chunks.len() {
            self.chunks.resize_with(at / CHUNK + 1, || None);
        }
        let chunk = self.chunks[at / CHUNK].get_or_insert_with(|| vec![0; CHUNK].into());
        chunk[at % CHUNK] = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_a_vec() {
        let mut stack = Stack::default();
        let mut oracle = Vec::new();
        for step in 0..200_u32 {
            if step % 37 < 25 {
                stack.push(step);
                oracle.push(step);
            } else {
                assert_eq!(stack.pop(), oracle.pop());
            }
            assert_eq!(stack.len(), oracle.len());
            assert!(stack.chunks.len() * CHUNK < stack.len() + 2 * CHUNK, "memory is given back");
        }
        assert!(oracle.iter().enumerate().all(|(at, &number)| stack.get(at) == number));
        while let Some(number) = stack.pop() {
            assert_eq!(Some(number), oracle.pop());
        }
        assert!(oracle.is_empty());
    }

    #[test]
    fn sparse_positions_keep_their_numbers() {
        let mut sparse = Sparse::default();
        sparse.set(1000, 7);
        sparse.set(3, 1);
        assert_eq!((sparse.get(1000), sparse.get(3), sparse.get(4)), (7, 1, 0));
        assert_eq!(sparse.chunks.iter().flatten().count(), 2);
    }
}
