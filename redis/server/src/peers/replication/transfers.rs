//! Images on their way to replicas.

use std::io;
use std::time::Instant;

use stillframe::{BeginError, CaptureError, MemoryError, SinkError};
use stillframe_keyspace::HeldImage;
use stillframe_rdb::Workspace;
use stillframe_storage::dump::Handback;
use stillframe_storage::wake::Wake;

use crate::connections::clients::Clients;

/// The transfer under way.
pub(crate) struct Transfers {
    pub(crate) running: Option<Transfer>,
    /// Whether the save under way was begun for replicas.
    pub(crate) saving: bool,
    pub(crate) handback: Handback<Result<(), TransferError>, Option<Workspace>>,
}

/// Replicas that receive an image.
pub(crate) struct Transfer {
    /// Places and numbers of the clients.
    pub(crate) replicas: Vec<(usize, u64)>,
    /// The image that it comes from; none if it comes from a file.
    pub(crate) image: Option<HeldImage>,
    /// When it began.
    pub(crate) started: Instant,
}

/// Why replicas did not get their image.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TransferError {
    /// There is no memory for the progress.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// Every replica has failed.
    #[error(transparent)]
    Send(#[from] SinkError),
    /// There can be no image now.
    #[error(transparent)]
    Begin(#[from] BeginError),
    /// The image was not taken whole.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The dump file cannot be read.
    #[error("reading the dump file: {0}")]
    Read(#[from] io::Error),
    /// The thread that takes images reported nothing.
    #[error("the image ended without a report")]
    Silence,
}

impl Transfers {
    /// None yet.
    pub(crate) fn new(wake: Wake) -> Self {
        Self { running: None, saving: false, handback: Handback::new(wake) }
    }

    /// The image that is held for replicas.
    pub(crate) fn image(&self) -> Option<HeldImage> {
        self.running.as_ref().and_then(|running| running.image)
    }

    /// Whether any replica of the image is still connected.
    pub(crate) fn anybody_left(&self, clients: &Clients) -> bool {
        let alive = |&(place, id): &(usize, u64)| {
            clients.get(place).is_some_and(|it| it.session.caller.id == id && !it.dead)
        };
        self.running.as_ref().is_some_and(|running| running.replicas.iter().any(alive))
    }

    /// Whether an image has been sent and is about to end, so that the loop looks again soon.
    pub(crate) fn ends_soon(&self) -> bool {
        self.handback.has_ended()
    }
}
