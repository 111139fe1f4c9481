//! Which image is of which moment.
//!
//! - An image is labelled when it begins: by id and membership of the last entry applied then.
//! - One is under way at a time. Who asks for another meanwhile gets that one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use openraft::{LogId, RaftTypeConfig, SnapshotMeta, StoredMembership};
use tokio::sync::oneshot;

use crate::error::Error;
use crate::state::{Image, ImageSource};

/// What a state has applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Label<C: RaftTypeConfig> {
    pub(crate) applied: Option<LogId<C::NodeId>>,
    pub(crate) membership: StoredMembership<C::NodeId, C::Node>,
}

impl<C: RaftTypeConfig> Default for Label<C> {
    fn default() -> Self {
        Self { applied: None, membership: StoredMembership::default() }
    }
}

impl<C: RaftTypeConfig> Label<C> {
    /// The index of the last entry.
    pub(crate) fn index(&self) -> Option<u64> {
        self.applied.as_ref().map(|applied| applied.index)
    }
}

/// Is told how an image ended.
pub(crate) type Ended = oneshot::Receiver<Result<(), String>>;

/// The images of a state.
pub(crate) struct Images<C: RaftTypeConfig> {
    inner: Mutex<Inner<C>>,
}

struct Inner<C: RaftTypeConfig> {
    source: Option<ImageSource>,
    under_way: Option<UnderWay<C>>,
    newest: Option<(u64, Label<C>)>,
}

struct UnderWay<C: RaftTypeConfig> {
    label: Label<C>,
    waiters: Vec<oneshot::Sender<Result<(), String>>>,
}

impl<C: RaftTypeConfig> Default for Images<C> {
    fn default() -> Self {
        Self { inner: Mutex::new(Inner { source: None, under_way: None, newest: None }) }
    }
}

impl<C: RaftTypeConfig> Images<C> {
    /// The state is another: its images, and the label of the newest.
    pub(crate) fn belong_to(&self, source: ImageSource, label: Label<C>) -> Result<(), Error> {
        let newest = source()?.map(|image| (image.number, label));
        let mut inner = self.lock();
        (inner.source, inner.newest) = (Some(source), newest);
        Ok(())
    }

    /// Waits for the image under way, or for one that the caller is to begin at once if the second
    /// value says so.
    pub(crate) fn wait(&self, label: impl FnOnce() -> Label<C>) -> (Ended, bool) {
        let (told, ended) = oneshot::channel();
        let mut inner = self.lock();
        match &mut inner.under_way {
            Some(under_way) => {
                under_way.waiters.push(told);
                (ended, false)
            }
            none => {
                *none = Some(UnderWay { label: label(), waiters: vec![told] });
                (ended, true)
            }
        }
    }

    /// The image under way has ended.
    pub(crate) fn ended(&self, how: Result<u64, String>) {
        let mut inner = self.lock();
        let Some(UnderWay { label, waiters }) = inner.under_way.take() else { return };
        if let Ok(number) = how {
            inner.newest = Some((number, label));
        }
        drop(inner);
        for waiter in waiters {
            let _ = waiter.send(how.clone().map(drop)); // it may have gone
        }
    }

    /// The newest durable image with its label.
    pub(crate) fn newest(&self) -> Result<Option<(Image, Label<C>)>, Error> {
        loop {
            let inner = self.lock();
            let Some(source) = inner.source.clone() else { return Ok(None) };
            drop(inner);
            let Some(image) = source()? else { return Ok(None) };
            let newest = self.lock().newest.clone();
            match newest {
                Some((number, label)) if number == image.number => return Ok(Some((image, label))),
                // It has just ended, and its label comes at once.
                _ => std::thread::yield_now(),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<C>> {
        // Taken though poisoned: it is whole between statements.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What openraft wants to know of an image.
pub(crate) fn meta<C: RaftTypeConfig>(
    image: &Image,
    label: &Label<C>,
) -> SnapshotMeta<C::NodeId, C::Node> {
    let Label { applied, membership } = label.clone();
    SnapshotMeta {
        last_log_id: applied,
        last_membership: membership,
        snapshot_id: image.id.clone(),
    }
}
