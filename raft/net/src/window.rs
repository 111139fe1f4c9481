//! How much is sent at once, by how fast it goes: a message that takes long holds up what comes
//! behind it, and is long on its way again if its connection breaks.

use std::time::Duration;

/// A window does not shrink below so many bytes.
const BYTES_MIN: usize = 16 << 10;
/// Where it begins: a third of what 1 MB/s carries in a heartbeat of 200 ms.
const BYTES_FIRST: usize = 64 << 10;

/// Bytes that are sent at once.
#[derive(Debug)]
pub(crate) struct Window {
    bytes: usize,
    most: usize,
}

impl Window {
    /// A window that grows up to so many bytes.
    pub(crate) fn up_to(most: usize) -> Self {
        Self { bytes: BYTES_FIRST.min(most), most }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// That many bytes were answered after `took`, and have `time`: a message that takes more than
    /// half of it halves the window, one that fills it and takes less than a quarter doubles it.
    pub(crate) fn note(&mut self, bytes: usize, took: Duration, time: Duration) {
        if took > time / 2 {
            self.bytes = (self.bytes / 2).max(BYTES_MIN.min(self.most));
        } else if took < time / 4 && bytes >= self.bytes / 2 {
            self.bytes = (self.bytes * 2).min(self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_follows_the_speed_of_its_link() {
        let time = Duration::from_millis(200);
        for (per_second, most, settles) in [
            (1 << 20, 1 << 20, 32 << 10..=64 << 10),
            (100 << 10, 1 << 20, 16 << 10..=16 << 10),
            (30 << 20, 1 << 20, 1 << 20..=1 << 20),
            (30 << 20, 10_000, 10_000..=10_000),
        ] {
            let mut window = Window::up_to(most);
            for _ in 0..20 {
                let took = Duration::from_secs_f64(window.bytes() as f64 / f64::from(per_second));
                window.note(window.bytes(), took, time);
            }
            assert!(settles.contains(&window.bytes()), "{per_second}: {}", window.bytes());
            window.note(8, Duration::ZERO, time);
            assert!(settles.contains(&window.bytes()), "a heartbeat says nothing");
        }
    }
}
