//! Views of the data that other threads of the program read: how they ask for one, and what its
//! user may see.
//!
//! - Who asks waits in a queue, which the turn looks at behind the effects of its requests: a view
//!   begins between two commands or transactions.
//! - A view ends with its last handle, or is given up when views hold more than `views-memory`.

use std::ops::Range;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stillframe::{Point, SinkError};
use stillframe_commands::facts::READ;
use stillframe_keyspace::{
    Entry, EntrySink, Keyspace, ReadView, ReadViewError, ReadViewLost, ScanError, Usage,
};
use stillframe_storage::wake::Wake;

use crate::node::acl::{Touched, User, Users};

/// The data as they were at an instant, for any number of threads of this program, while the server
/// goes on. Clones are of the same instant; dropping the last one gives memory back.
///
/// It shows what commands have done, acknowledged or not: under `appendfsync always` some of it may
/// be on its way to the disk.
#[derive(Clone)]
pub struct DataView {
    view: ReadView,
    /// Sees all keys if there is none.
    user: Option<Arc<Mutex<Arc<Sight>>>>,
}

/// A user, as it was when the view began or was renewed.
struct Sight {
    user: User,
    /// `STILLFRAME VIEW` in the table of commands.
    command: usize,
}

/// No view was opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataViewError {
    /// The server is over, or in the process that this one was forked from.
    #[error("the server has ended")]
    Ended,
    /// As to AUTH.
    #[error("invalid username-password pair or user is disabled")]
    WrongPassword,
    /// The user may not call `STILLFRAME VIEW`.
    #[error("the user has no permissions to run the 'stillframe|view' command")]
    NotAllowed,
    /// The keyspace opens none.
    #[error(transparent)]
    View(#[from] ReadViewError),
}

impl DataView {
    /// When it began, in unix milliseconds. Keys that had expired by then are absent.
    #[must_use]
    pub fn now(&self) -> i64 {
        self.view.now()
    }

    /// Keys of a database, of all users, including expired ones that nothing had met.
    #[must_use]
    pub fn len(&self, db: usize) -> usize {
        self.view.len(db)
    }

    /// Whether no database had keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.view.is_empty()
    }

    /// Slots, of which keys take one each: threads share them out.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.view.slots()
    }

    /// Gives `sink` the keys in these slots that the user may read, in no order, each once in each
    /// database that has it; see [`ReadView::scan`].
    ///
    /// # Errors
    /// [`ScanError`]: the view was given up for want of memory, or the sink failed.
    pub fn scan(&self, slots: Range<usize>, sink: &mut impl EntrySink) -> Result<(), ScanError> {
        match &self.user {
            Some(user) => {
                let sight = Arc::clone(&user.lock().unwrap_or_else(PoisonError::into_inner));
                self.view.scan(slots, &mut Seen { sight: &sight, sink })
            }
            None => self.view.scan(slots, sink),
        }
    }

    /// Scans that begin from now on are for this user, if it is not a view of all keys.
    fn shown_to(self, sight: Option<Sight>) -> Self {
        if let (Some(user), Some(sight)) = (&self.user, sight) {
            *user.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(sight);
        }
        self
    }

    /// Whether the view has not been given up.
    ///
    /// # Errors
    /// [`ReadViewLost`].
    pub fn check(&self) -> Result<(), ReadViewLost> {
        if self.view.is_lost() { Err(ReadViewLost) } else { Ok(()) }
    }
}

impl Sight {
    fn may(&self, keys: Vec<(&[u8], u8)>) -> bool {
        let (command, first, channels) = (self.command, None, Vec::new());
        let touched = Touched { command, open: false, first, keys, channels, patterns: false };
        self.user.unlimited || self.user.check(&touched).is_ok()
    }
}

/// What a user sees of entries.
struct Seen<'a, E> {
    sight: &'a Sight,
    sink: &'a mut E,
}

impl<E: EntrySink> EntrySink for Seen<'_, E> {
    fn entry(&mut self, db: usize, entry: &Entry) -> Result<(), SinkError> {
        if self.sight.may(vec![(entry.key(), READ)]) { self.sink.entry(db, entry) } else { Ok(()) }
    }

    fn used_entry(&mut self, db: usize, entry: &Entry, usage: Usage) -> Result<(), SinkError> {
        let may = self.sight.may(vec![(entry.key(), READ)]);
        if may { self.sink.used_entry(db, entry, usage) } else { Ok(()) }
    }
}

/// A name and a password.
type Login = (Vec<u8>, Vec<u8>);

/// Who asks for a view, and where the answer goes.
struct Ask {
    login: Option<Login>,
    /// The view that it has already, which is to be as the user's rules are now.
    renewed: Option<DataView>,
    answer: Sender<Result<DataView, DataViewError>>,
}

/// The queue of those who ask; `None` once nobody answers.
#[derive(Clone, Default)]
struct Queue(Arc<Mutex<Option<Vec<Ask>>>>);

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Option<Vec<Ask>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where threads of the program ask for views of the data.
#[derive(Clone)]
pub struct ViewDoor {
    queue: Queue,
    rouse: Wake,
    process: u32,
}

impl ViewDoor {
    /// The data as they are now, to be read while the server goes on. What is written meanwhile
    /// takes memory, up to `views-memory`; then the view is given up. It waits for a turn of the
    /// server.
    ///
    /// # Errors
    /// [`DataViewError`].
    pub fn view(&self) -> Result<DataView, DataViewError> {
        self.ask(None, None)
    }

    /// As [`view`](Self::view), for a user of the server, who may call `STILLFRAME VIEW`: the keys
    /// that its rules let it read.
    ///
    /// # Errors
    /// [`DataViewError`].
    pub fn view_as(&self, user: &[u8], password: &[u8]) -> Result<DataView, DataViewError> {
        self.ask(Some((user.to_vec(), password.to_vec())), None)
    }

    /// Makes a view of a user, and its clones, show what the rules of the user allow now: still of
    /// the same instant.
    ///
    /// # Errors
    /// [`DataViewError`]: the user may not log in any more, or not ask for views.
    pub fn renew(
        &self,
        view: &DataView,
        user: &[u8],
        password: &[u8],
    ) -> Result<(), DataViewError> {
        let login = (user.to_vec(), password.to_vec());
        self.ask(Some(login), Some(view.clone())).map(drop)
    }

    fn ask(
        &self,
        login: Option<Login>,
        renewed: Option<DataView>,
    ) -> Result<DataView, DataViewError> {
        if std::process::id() != self.process {
            return Err(DataViewError::Ended);
        }
        let (answer, answered) = channel();
        self.queue.lock().as_mut().ok_or(DataViewError::Ended)?.push(Ask {
            login,
            renewed,
            answer,
        });
        (self.rouse)();
        answered.recv().unwrap_or(Err(DataViewError::Ended))
    }
}

/// The loop's side of the queue.
#[derive(Default)]
pub(crate) struct ReadViews {
    queue: Queue,
    opened: u64,
}

impl ReadViews {
    /// From now on there is somebody who answers; `rouse` ends the sleep of the loop.
    pub(crate) fn open_door(&self, rouse: Wake) -> ViewDoor {
        self.queue.lock().get_or_insert_default();
        ViewDoor { queue: self.queue.clone(), rouse, process: std::process::id() }
    }

    /// Read views since the start.
    pub(crate) fn opened(&self) -> u64 {
        self.opened
    }

    /// Answers those who ask. Called every turn, at a point of consistency.
    pub(crate) fn attend(
        &mut self,
        keyspace: &mut Keyspace,
        users: &Users,
        now: i64,
        wake: impl Fn() -> Wake,
    ) {
        let asks = self.queue.lock().as_mut().map(std::mem::take).unwrap_or_default();
        for Ask { login, renewed, answer } in asks {
            let seen = login.as_ref().map(|login| sight(users, login)).transpose();
            if let Some(view) = renewed {
                let _ = answer.send(seen.map(|sight| view.shown_to(sight)));
                continue;
            }
            let view = seen.and_then(|user| {
                let view = keyspace.read_view(Point::declare(), now, wake())?;
                Ok(DataView { view, user: user.map(|it| Arc::new(Mutex::new(Arc::new(it)))) })
            });
            match view {
                // A database is being swept: the next turn may be the one.
                Err(DataViewError::View(ReadViewError::Unswept)) => {
                    self.queue.lock().get_or_insert_default().push(Ask {
                        login,
                        renewed: None,
                        answer,
                    });
                }
                view => {
                    self.opened += u64::from(view.is_ok());
                    let _ = answer.send(view); // nobody waits any more: it is dropped
                }
            }
        }
    }
}

impl Drop for ReadViews {
    fn drop(&mut self) {
        drop(self.queue.lock().take());
    }
}

fn sight(users: &Users, (name, password): &Login) -> Result<Sight, DataViewError> {
    let number = users.log_in(name, password).ok_or(DataViewError::WrongPassword)?;
    let user = users.get(number).ok_or(DataViewError::WrongPassword)?.clone();
    let command = users.catalog().find(b"stillframe|view").unwrap_or(usize::MAX);
    let sight = Sight { user, command };
    if sight.may(Vec::new()) { Ok(sight) } else { Err(DataViewError::NotAllowed) }
}
