//! What a hunt found.

use serde::Serialize;
use stillframe_measure::Table;

use crate::judge::Class;

/// What a hunt found.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Host and port.
    pub target: String,
    /// What the target says it is.
    pub server: String,
    /// How images were taken: `sync` or `dump`.
    pub images_by: &'static str,
    /// Seed of the transactions.
    pub seed: u64,
    /// Images judged.
    pub images: u64,
    /// Transactions acknowledged.
    pub transactions: u64,
    /// Transactions acknowledged between the requests for images and their arrival.
    pub transactions_during_images: u64,
    /// Keys of the hunter in an image.
    pub keys: u64,
    /// Whether keys were moved between databases.
    pub moves: bool,
    /// Whether offsets and replication ids were judged.
    pub labels: bool,
    /// How long it took.
    pub seconds: f64,
    /// Wrong images, by class.
    pub found: Vec<Found>,
    /// Whether the hunt was interrupted.
    pub interrupted: bool,
}

/// The wrong images of one class.
#[derive(Debug, Clone, Serialize)]
pub struct Found {
    /// The class.
    pub class: Class,
    /// Images.
    pub images: u64,
    /// Number of the first, counted from 1; none: 0.
    pub first_image: u64,
    /// What is wrong with it.
    pub first: String,
}

impl Found {
    pub(crate) fn none(class: Class) -> Self {
        Self { class, images: 0, first_image: 0, first: String::new() }
    }
}

impl Report {
    /// Why the images cannot be trusted, in one sentence; `None` if nothing was found.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let Self { target, images, .. } = self;
        let wrong = self.found.iter().filter(|it| it.images > 0);
        let wrong: Vec<String> = wrong.map(|it| format!("{} {}", it.images, it.class)).collect();
        if !wrong.is_empty() {
            let seed = self.seed;
            return Some(format!(
                "{target}: of {images} images were {} (seed {seed})",
                wrong.join(", ")
            ));
        }
        (self.transactions_during_images == 0 && !self.interrupted).then(|| {
            format!(
                "{target}: no transaction ended while an image was taken, so nothing is proven; \
                 raise --keys or --images"
            )
        })
    }

    /// Classes in rows.
    #[must_use]
    pub fn table(&self) -> Table {
        let row = |it: &Found| vec![it.class.name().to_owned(), it.images.to_string()];
        Table {
            title: format!("{} images of {}", self.images, self.server),
            columns: vec!["class".to_owned(), "images".to_owned()],
            rows: self.found.iter().map(row).collect(),
        }
    }

    /// What the hunt did and found, one sentence each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let Self { images_by, transactions, transactions_during_images, keys, .. } = self;
        let by = match *images_by {
            "sync" => "full syncs",
            _ => "BGSAVE",
        };
        let mut notes = vec![format!(
            "Images by {by} of {keys} keys; {transactions} transactions, \
             {transactions_during_images} of them while an image was taken; {:.1} s; seed {}.",
            self.seconds, self.seed
        )];
        if !self.labels {
            notes.push("Not judged: labels, which take a full sync (no --dump).".to_owned());
        }
        if !self.moves {
            notes.push("Not judged: MOVE, because the server has one database.".to_owned());
        }
        for Found { class, first_image, first, .. } in self.found.iter().filter(|it| it.images > 0)
        {
            notes.push(format!("First {class}, image {first_image}: {first}."));
        }
        if self.interrupted {
            notes.push("Interrupted.".to_owned());
        }
        notes
    }
}
