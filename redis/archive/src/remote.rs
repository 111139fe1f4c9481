//! The object store below one prefix.
//!
//! - Credentials come from the environment, as `object_store` reads it, and never from the URL.
//!   What a store says passes `tell` before anybody sees it.
//! - A request has a time that its bytes decide ([`Patience`]): a store that takes a request and
//!   says nothing is one that cannot be reached.
//! - An object that must be new is put with `PutMode::Create`. If the answer to that is lost, the
//!   next try finds the object; its content then shows whose it is.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::local::LocalFileSystem;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientConfigKey, Error, ObjectStore, ObjectStoreExt, ObjectStoreScheme, PutMode,
    RetryConfig,
};
use stillframe_durability::disk::Directory;
use url::Url;

use crate::error::ArchiveError;
use crate::manifest::{MANIFESTS, Manifest};

/// Most bytes of an object that is read whole.
const WHOLE_BYTES_MAX: u64 = 1 << 30;
/// How long the client waits by itself, beyond all that [`Patience`] gives.
const REQUEST_TIMEOUT: &str = "300 seconds";

/// See the head of this file.
#[derive(Debug, Clone)]
pub(crate) struct Remote {
    pub(crate) url: String,
    prefix: Path,
    pub(crate) store: Arc<dyn ObjectStore>,
    /// The same, if uploads in parts have names there that can be kept.
    pub(crate) parts: Option<Arc<dyn Multipart>>,
    /// The folder, if it is one of this machine.
    folder: Option<PathBuf>,
    pub(crate) patience: Patience,
}

/// How long a request may take.
#[derive(Debug, Clone)]
pub(crate) struct Patience {
    /// For one of few bytes.
    pub(crate) answer: Duration,
    /// What its bytes take beyond that, in times of what they take at [`RATE`]. A request that has
    /// failed for lack of time doubles it, so that a slow way out is found to be one. A figure by
    /// itself, so relaxed.
    times: Arc<AtomicU64>,
}

/// Bytes a second that a way out is expected to take at first.
const RATE: u64 = 250_000;
/// Most times as long: 31 kB a second.
const TIMES_MAX: u64 = 8;

impl Default for Patience {
    fn default() -> Self {
        Self { answer: Duration::from_secs(15), times: Arc::new(AtomicU64::new(1)) }
    }
}

impl Patience {
    fn time(&self, bytes: u64) -> Duration {
        let millis = bytes.saturating_mul(1000) / RATE;
        self.answer + Duration::from_millis(millis * self.times.load(Ordering::Relaxed))
    }

    /// Learns from a request whether there was time enough, and how much of it was taken.
    fn learn(&self, bytes: u64, taken: Duration) {
        let times = self.times.load(Ordering::Relaxed);
        let time = self.time(bytes);
        if taken >= time && bytes > RATE {
            self.times.store((2 * times).min(TIMES_MAX), Ordering::Relaxed);
        } else if bytes > RATE && taken < time / 4 {
            self.times.store((times / 2).max(1), Ordering::Relaxed);
        }
    }
}

/// A store whose uploads in parts have names.
pub(crate) trait Multipart: MultipartStore + std::fmt::Debug {}

impl<T: MultipartStore + std::fmt::Debug> Multipart for T {}

/// Whether an object that must be new was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Created {
    New,
    Existed,
}

impl Remote {
    /// As [`open`](Self::open), for reading: makes no folder where there is none.
    pub(crate) fn open_existing(url: &str) -> Result<Self, ArchiveError> {
        let (shown, parsed) = parse(url)?;
        let folder = (parsed.scheme() == "file").then(|| parsed.to_file_path().ok()).flatten();
        if folder.is_some_and(|folder| !folder.is_dir()) {
            let problem = "there is no such folder".to_owned();
            return Err(ArchiveError::Url { url: shown, problem });
        }
        Self::open(url)
    }

    /// The store of a URL. Nothing is asked of it yet.
    pub(crate) fn open(url: &str) -> Result<Self, ArchiveError> {
        let (shown, parsed) = parse(url)?;
        let wrong = |problem: String| ArchiveError::Url { url: shown.clone(), problem };
        let (scheme, prefix) =
            ObjectStoreScheme::parse(&parsed).map_err(|error| wrong(describe(&error)))?;
        provide_crypto();
        let failed = |error: Error| wrong(describe(&error));
        let url = shown.clone();
        match scheme {
            ObjectStoreScheme::Local => {
                let no_path = || wrong("it has no path".to_owned());
                let path = parsed.to_file_path().map_err(|()| no_path())?;
                drop(Directory::create_at(&path)?);
                let store = LocalFileSystem::new_with_prefix(&path).map_err(failed)?;
                let store = Arc::new(store.with_fsync(true));
                let (prefix, patience) = (Path::default(), Patience::default());
                Ok(Self { url, prefix, store, parts: None, folder: Some(path), patience })
            }
            ObjectStoreScheme::AmazonS3 => {
                let timeout = AmazonS3ConfigKey::Client(ClientConfigKey::Timeout);
                let builder = AmazonS3Builder::from_env().with_url(parsed.as_str());
                let builder = builder.with_config(timeout, REQUEST_TIMEOUT).with_retry(retry());
                Ok(Self::over(url, prefix, Arc::new(builder.build().map_err(failed)?)))
            }
            ObjectStoreScheme::GoogleCloudStorage => {
                let timeout = GoogleConfigKey::Client(ClientConfigKey::Timeout);
                let builder = GoogleCloudStorageBuilder::from_env().with_url(parsed.as_str());
                let builder = builder.with_config(timeout, REQUEST_TIMEOUT).with_retry(retry());
                Ok(Self::over(url, prefix, Arc::new(builder.build().map_err(failed)?)))
            }
            ObjectStoreScheme::MicrosoftAzure => {
                let timeout = AzureConfigKey::Client(ClientConfigKey::Timeout);
                let builder = MicrosoftAzureBuilder::from_env().with_url(parsed.as_str());
                let builder = builder.with_config(timeout, REQUEST_TIMEOUT).with_retry(retry());
                Ok(Self::over(url, prefix, Arc::new(builder.build().map_err(failed)?)))
            }
            _ => Err(wrong("use s3://, gs://, az:// or file:///".to_owned())),
        }
    }

    /// A store that names its uploads in parts.
    pub(crate) fn over<S: ObjectStore + MultipartStore>(
        url: String,
        prefix: Path,
        store: Arc<S>,
    ) -> Self {
        let (parts, patience) = (Some(Arc::clone(&store) as _), Patience::default());
        Self { url, prefix, store, parts, folder: None, patience }
    }

    /// Gives a request that sends so many bytes its time.
    pub(crate) async fn within<T>(
        &self,
        bytes: u64,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let (time, begun) = (self.patience.time(bytes), Instant::now());
        let answer = tokio::time::timeout(time, request).await;
        self.patience.learn(bytes, if answer.is_ok() { begun.elapsed() } else { time });
        answer.unwrap_or_else(|_| {
            let source = format!("no answer within {} s", time.as_secs_f32().ceil()).into();
            Err(Error::Generic { store: "archive", source })
        })
    }

    pub(crate) fn path(&self, name: &str) -> Path {
        name.split('/').fold(self.prefix.clone(), |path, part| path.join(part))
    }

    /// Puts an object that must be new.
    pub(crate) async fn create(&self, name: &str, text: &str) -> Result<Created, ArchiveError> {
        let payload = Bytes::copy_from_slice(text.as_bytes()).into();
        let path = self.path(name);
        let put = self.store.put_opts(&path, payload, PutMode::Create.into());
        match self.within(text.len() as u64, put).await {
            Ok(_) => Ok(Created::New),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(Created::Existed),
            Err(Error::NotImplemented { .. } | Error::NotSupported { .. }) => {
                Err(ArchiveError::NotConditional { url: self.url.clone() })
            }
            Err(error) => Err(self.failed("cannot put", name, &error)),
        }
    }

    /// Puts an object under a name that this run alone uses.
    pub(crate) async fn put(&self, name: &str, bytes: Bytes) -> Result<(), ArchiveError> {
        let (path, length) = (self.path(name), bytes.len() as u64);
        let put = self.within(length, self.store.put(&path, bytes.into())).await;
        put.map(drop).map_err(|error| self.failed("cannot put", name, &error))
    }

    /// A small object, whole.
    pub(crate) async fn get(&self, name: &str) -> Result<Bytes, ArchiveError> {
        let failed = |error: Error| self.failed("cannot get", name, &error);
        let path = self.path(name);
        let found = self.within(0, self.store.get(&path)).await.map_err(failed)?;
        if found.meta.size > WHOLE_BYTES_MAX {
            let problem = format!("{} bytes are too many", found.meta.size);
            return Err(self.damaged(name, problem));
        }
        let bytes = found.meta.size;
        self.within(bytes, found.bytes()).await.map_err(failed)
    }

    /// The names in a folder, sorted.
    pub(crate) async fn list(&self, folder: &str) -> Result<Vec<String>, ArchiveError> {
        let listed = self.store.list(Some(&self.path(folder)));
        let found: Vec<_> = self
            .within(0, listed.try_collect())
            .await
            .map_err(|error| self.failed("cannot list", folder, &error))?;
        let in_folder = |path: &Path| Some(format!("{folder}/{}", path.filename()?));
        let mut names: Vec<String> =
            found.iter().filter_map(|meta| in_folder(&meta.location)).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Removes objects, whether they are there or not.
    pub(crate) async fn remove(&self, names: &[String]) -> Result<(), ArchiveError> {
        let paths: Vec<_> = names.iter().map(|name| Ok(self.path(name))).collect();
        let mut removed = self.store.delete_stream(futures_util::stream::iter(paths).boxed());
        loop {
            // The stream ends, or the store says nothing.
            let next = async { removed.next().await.transpose() };
            match self.within(0, next).await {
                Ok(None) => break,
                Ok(Some(_)) | Err(Error::NotFound { .. }) => {}
                Err(error) => return Err(self.failed("cannot delete from", &self.url, &error)),
            }
        }
        Ok(())
    }

    /// The newest manifest.
    ///
    /// # Errors
    /// [`ArchiveError::Unusable`]: it is torn or foreign. An older one is not taken in its place,
    /// because that would be an older state without a word.
    pub(crate) async fn newest(&self) -> Result<Option<Manifest>, ArchiveError> {
        loop {
            let names = self.list(MANIFESTS).await?;
            let Some(name) = names.last() else { return Ok(None) };
            let bytes = match self.get(name).await {
                // Many came since the listing.
                Err(ArchiveError::Store { is_missing: true, .. }) => continue,
                got => got?,
            };
            let found = match Manifest::parse_name(name) {
                Some(_) => Manifest::parse(name, &bytes),
                None => Err(crate::sealed::Unsealed::Foreign("its name is of no manifest".into())),
            };
            return found.map(Some).map_err(|problem| self.unusable(name, problem));
        }
    }

    /// Removes what uploads in parts have left in a folder of this machine.
    pub(crate) fn sweep_folder(&self) -> Result<(), ArchiveError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let Ok(objects) = Directory::existing(folder.join(crate::manifest::OBJECTS)) else {
            return Ok(()); // nothing was put yet
        };
        for name in objects.names()?.iter().filter(|name| name.contains('#')) {
            objects.remove(name)?;
        }
        Ok(())
    }

    pub(crate) fn failed(&self, what: &'static str, name: &str, error: &Error) -> ArchiveError {
        let is_missing = matches!(error, Error::NotFound { .. });
        ArchiveError::Store { what, name: name.to_owned(), problem: describe(error), is_missing }
    }

    pub(crate) fn damaged(&self, name: &str, problem: String) -> ArchiveError {
        ArchiveError::Damaged { url: self.url.clone(), name: name.to_owned(), problem }
    }

    pub(crate) fn unusable(&self, name: &str, problem: crate::sealed::Unsealed) -> ArchiveError {
        ArchiveError::Unusable { url: self.url.clone(), name: name.to_owned(), problem }
    }
}

/// The store's own retries are few: the worker goes on for as long as it takes.
fn retry() -> RetryConfig {
    let backoff = BackoffConfig { max_backoff: Duration::from_secs(2), ..BackoffConfig::default() };
    RetryConfig { backoff, max_retries: 2, retry_timeout: Duration::from_secs(20) }
}

/// The HTTP client takes the process's provider of cryptography, which the server names itself.
fn provide_crypto() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error says that there is one.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// A URL as it may be shown, and parsed.
fn parse(text: &str) -> Result<(String, Url), ArchiveError> {
    let shown = text.split(['?', '#']).next().unwrap_or_default();
    let shown = match shown.split_once("://") {
        Some((scheme, rest)) => match rest.split_once('@') {
            // Azure writes container@account; a colon makes it a password.
            Some((user, rest)) if user.contains(':') => format!("{scheme}://***@{rest}"),
            _ => shown.to_owned(),
        },
        None => shown.to_owned(),
    };
    let wrong = |problem: &str| ArchiveError::Url { url: shown.clone(), problem: problem.into() };
    let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
    if url.password().is_some() || url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("credentials and options belong into the environment"));
    }
    Ok((shown.trim_end_matches('/').to_owned(), url))
}

/// What an error says, with its causes and without secrets: a signed request has some in its URL.
pub(crate) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    redact(&text, secrets())
}

/// Cuts the queries of URLs, and replaces secrets.
fn redact(text: &str, secrets: impl Iterator<Item = String>) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut words = text.split_inclusive(char::is_whitespace);
    for word in &mut words {
        match word.split_once('?') {
            Some((before, query)) if before.contains("://") => {
                shown.push_str(before);
                // What closes the URL stays.
                let end = query.trim_start_matches(|it: char| !")>\"'\n ".contains(it));
                shown.push_str("?***");
                shown.push_str(end);
            }
            _ => shown.push_str(word),
        }
    }
    secrets.fold(shown, |shown, secret| shown.replace(&secret, "***")).replace('\n', " ")
}

/// Values of the environment that nobody is to see.
fn secrets() -> impl Iterator<Item = String> {
    const PREFIXES: [&str; 5] = ["AWS_", "AZURE_", "GOOGLE_", "OBJECT_STORE_", "IDENTITY_"];
    const WORDS: [&str; 6] = ["SECRET", "KEY", "TOKEN", "PASSWORD", "SAS", "CREDENTIAL"];
    const BYTES_MIN: usize = 6;
    std::env::vars_os().filter_map(|(name, value)| {
        let name = name.to_str()?.to_ascii_uppercase();
        let is_secret = PREFIXES.iter().any(|prefix| name.starts_with(prefix))
            && WORDS.iter().any(|word| name.contains(word));
        let value = value.into_string().ok()?;
        (is_secret && value.len() >= BYTES_MIN).then_some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_seconds_and_a_slow_way_is_learned() {
        let (patience, part) = (Patience::default(), 8 << 20);
        let seconds = |bytes| patience.time(bytes).as_secs();
        assert_eq!((seconds(0), seconds(1000), seconds(part)), (15, 15, 48));
        for expected in [82, 149, 283, 283] {
            patience.learn(part, patience.time(part));
            assert_eq!(seconds(part), expected);
        }
        assert_eq!(seconds(1000), 15, "what is small has no more time");
        patience.learn(1000, patience.time(1000));
        for expected in [149, 82, 48, 48] {
            patience.learn(part, Duration::from_secs(3));
            assert_eq!(seconds(part), expected);
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let text = "GET https://a.blob.core.windows.net/c/x?sig=abc%3D&se=1): no key hunter22";
        let shown = redact(text, ["hunter22".to_owned()].into_iter());
        assert_eq!(shown, "GET https://a.blob.core.windows.net/c/x?***): no key ***");
    }

    #[test]
    fn a_url_with_credentials_is_refused_and_not_repeated() {
        for url in ["s3://key:hunter22@bucket/p", "az://c/p?sig=hunter22", "s3://b/p#hunter22"] {
            let error = Remote::open(url).expect_err("it has a secret").to_string();
            assert!(!error.contains("hunter22"), "{error}");
        }
        for url in ["", "nonsense", "ftp://a/b", "memory:///x", "http://a/b"] {
            assert!(Remote::open(url).is_err(), "{url}");
        }
    }
}
