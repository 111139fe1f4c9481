//! The manifest: which copy of the state counts, and from which record on the log is applied to it.
//! One small text file, replaced as a whole, and there before any other file.

use stillframe_durability::disk::{Directory, with_sum};

use super::error::Error;

/// The directory of the redo log.
pub(crate) const LOG: &str = "log";
const NAME: &str = "aries";
const TEMPORARY: &str = "aries.tmp";
const HEAD: &str = "stillframe aries, version 1";

/// What it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) words: usize,
    /// The first record of the log that is applied.
    pub(crate) position: u64,
    /// Number and pieces of the copy.
    pub(crate) image: Option<(u64, u64)>,
}

/// The directory of a copy.
pub(crate) fn directory_of(image: u64) -> String {
    format!("image-{image}")
}

impl Manifest {
    /// Of a state where nothing has happened.
    pub(crate) fn new(words: usize) -> Self {
        Self { words, position: 1, image: None }
    }

    /// Of a copy that is about to begin, when the log's next record has that number.
    pub(crate) fn next(&self, position: u64) -> Self {
        let number = self.image.map_or(1, |(number, _)| number + 1);
        Self { words: self.words, position, image: Some((number, 0)) }
    }

    pub(crate) fn read(directory: &Directory) -> Result<Option<Self>, Error> {
        if !directory.holds(NAME)? {
            return Ok(None);
        }
        let text = directory.read_text(NAME)?;
        let damaged = || Error::Damaged {
            path: directory.at(NAME),
            what: "it is not what was written".to_owned(),
        };
        Self::decode(&text).ok_or_else(damaged).map(Some)
    }

    /// Puts this one in the place of the one before.
    pub(crate) fn publish(&self, directory: &Directory) -> Result<(), Error> {
        Ok(directory.replace(NAME, TEMPORARY, self.encode().as_bytes())?)
    }

    /// Removes copies that do not count: those before, and one that was not finished.
    pub(crate) fn clean(&self, directory: &Directory) -> Result<(), Error> {
        let needed = self.image.map(|(number, _)| directory_of(number));
        for name in directory.names()? {
            if name.starts_with("image-") && Some(&name) != needed.as_ref() {
                directory.remove_all_below(&name)?;
            }
        }
        Ok(())
    }

    fn encode(&self) -> String {
        let (number, pieces) = self.image.unwrap_or_default();
        let Self { words, position, .. } = self;
        let text = format!("{HEAD}\nwords {words}\nposition {position}\nimage {number} {pieces}\n");
        with_sum(text)
    }

    fn decode(text: &str) -> Option<Self> {
        let mut numbers = text.split([' ', '\n']).filter_map(|word| word.parse::<u64>().ok());
        // The version is the first number.
        let [_, words, position, number, pieces] =
            [(); 5].map(|()| numbers.next()).into_iter().collect::<Option<Vec<_>>>()?[..]
        else {
            return None;
        };
        let image = (number > 0).then_some((number, pieces));
        let found = Self { words: usize::try_from(words).ok()?, position, image };
        // Whatever is wrong with a text, it is not the one that would be written.
        (found.encode() == text).then_some(found)
    }
}
