//! What a state machine keeps its state in: the contract.

use std::sync::Arc;

use stillframe_durability::disk::{Input, Location};

use crate::error::Error;

/// A state that entries are applied to, and that takes images of itself while they are.
///
/// One is at hand: [`WordState`](crate::WordState), for machines on state words.
pub trait State: Sized + Send + 'static {
    /// What an entry holds: `D` of the type configuration.
    type Command;
    /// What applying it returns: `R` of the type configuration.
    type Reply;
    /// How the state is kept.
    type Options: Clone + Send + Sync + 'static;

    /// Opens the state in the directory at `location`: as the newest image there has it, or empty.
    /// `told` is to be called once for each image that was begun, when it is durable or has failed,
    /// from any thread.
    ///
    /// # Errors
    /// [`Error`]; nothing is lost by trying again.
    fn open(location: Location, options: &Self::Options, told: Told) -> Result<Self, Error>;

    /// Applies a command. What it does must depend on nothing but the command and the state.
    fn apply(&mut self, command: Self::Command) -> Self::Reply;

    /// What was noted; empty if nothing was.
    ///
    /// # Errors
    /// [`Error`], if the state holds something else there.
    fn note(&self, note: Note) -> Result<Vec<u8>, Error>;

    /// Notes these bytes, as part of the state: an image has them as it has everything else.
    ///
    /// # Errors
    /// [`Error::NoteTooLong`].
    fn set_note(&mut self, note: Note, bytes: &[u8]) -> Result<(), Error>;

    /// Begins an image of the state as it is now, which must not take long, and returns. The one
    /// before has been told of.
    fn begin(&mut self);

    /// Where other threads find the newest durable image.
    fn images(&self) -> ImageSource;

    /// Whether a file of an image may have this name.
    fn is_image_file(name: &str) -> bool;
}

/// What is to be called at the end of each image, with its number or the reason why there is none.
pub type Told = Box<dyn Fn(Result<u64, String>) + Send + Sync>;

/// Returns the newest durable image, if there is one.
pub type ImageSource = Arc<dyn Fn() -> Result<Option<Image>, Error> + Send + Sync>;

/// What the state machine notes in its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// The id of the last entry that was applied. Changes with each.
    Applied,
    /// The last membership that was applied.
    Membership,
}

impl Note {
    /// In words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Applied => "log id",
            Self::Membership => "membership",
        }
    }
}

/// The files of an image. In a directory of their own they are the state.
#[derive(Debug, Clone)]
pub struct Image {
    /// Its number, which rises from image to image.
    pub number: u64,
    /// A name that no other image has, on this node or another.
    pub id: String,
    /// The files.
    pub files: Vec<File>,
}

/// A file of an image, open.
#[derive(Debug, Clone)]
pub struct File {
    /// Its name.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// What is in it.
    pub input: Input,
}
