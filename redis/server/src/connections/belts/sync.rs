//! The one place that knows which atomics and rings are in use: the real ones, or loom's.

#[cfg(feature = "loom")]
pub(crate) use self::model::{Consumer, Producer, push, ring};
#[cfg(feature = "loom")]
pub(crate) use loom::sync::{
    Arc,
    atomic::{AtomicBool, Ordering, fence},
};
#[cfg(not(feature = "loom"))]
pub(crate) use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering, fence},
};

#[cfg(not(feature = "loom"))]
pub(crate) use rtrb::{Consumer, Producer};

/// A bounded ring from one thread to another.
#[cfg(not(feature = "loom"))]
pub(crate) fn ring<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    rtrb::RingBuffer::new(capacity)
}

/// Puts an element into a ring, or gives it back.
#[cfg(not(feature = "loom"))]
#[inline]
pub(crate) fn push<T>(to: &mut Producer<T>, value: T) -> Result<(), T> {
    to.push(value).map_err(|rtrb::PushError::Full(value)| value)
}

/// A ring with the orders of `rtrb`: each side publishes its own end, and learns of the other's
/// when it looks. No lock orders anything else.
#[cfg(feature = "loom")]
mod model {
    use loom::sync::atomic::{AtomicUsize, Ordering};
    use loom::sync::{Arc, Mutex};

    struct Ring<T> {
        slots: Vec<Mutex<Option<T>>>,
        head: AtomicUsize,
        tail: AtomicUsize,
    }

    /// See `rtrb`.
    pub(crate) struct Producer<T>(Arc<Ring<T>>, usize);
    /// See `rtrb`.
    pub(crate) struct Consumer<T>(Arc<Ring<T>>, usize);

    /// A ring for so many elements.
    pub(crate) fn ring<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
        let slots = (0..capacity).map(|_| Mutex::new(None)).collect();
        let ring = Ring { slots, head: AtomicUsize::new(0), tail: AtomicUsize::new(0) };
        let ring = Arc::new(ring);
        (Producer(ring.clone(), 0), Consumer(ring, 0))
    }

    /// Puts an element into a ring, or gives it back.
    pub(crate) fn push<T>(to: &mut Producer<T>, value: T) -> Result<(), T> {
        let Producer(ring, tail) = to;
        if *tail - ring.head.load(Ordering::Acquire) == ring.slots.len() {
            return Err(value);
        }
        *ring.slots[*tail % ring.slots.len()].lock().expect("no panic") = Some(value);
        *tail += 1;
        ring.tail.store(*tail, Ordering::Release);
        Ok(())
    }

    impl<T> Consumer<T> {
        pub(crate) fn is_empty(&self) -> bool {
            self.0.tail.load(Ordering::Acquire) == self.1
        }

        pub(crate) fn pop(&mut self) -> Result<T, ()> {
            let Self(ring, head) = self;
            if ring.tail.load(Ordering::Acquire) == *head {
                return Err(());
            }
            let slot = &ring.slots[*head % ring.slots.len()];
            let value = slot.lock().expect("no panic").take();
            *head += 1;
            ring.head.store(*head, Ordering::Release);
            value.ok_or(())
        }
    }
}
