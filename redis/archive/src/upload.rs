//! The upload of an image, part by part, so that the log goes on between two parts.
//!
//! - Every attempt has a name of its own: a request that was given up may still be carried out.
//! - An upload in parts has a name in the store, which is noted on the disk before the first part:
//!   the next run ends what a killed one has begun.

use std::io::Read;

use bytes::Bytes;
use object_store::multipart::PartId;
use object_store::{Error, MultipartUpload, ObjectStoreExt};
use sha2::{Digest, Sha256};
use stillframe_durability::disk::Input;

use crate::error::ArchiveError;
use crate::manifest::Object;
use crate::owner::{Begun, Owner};
use crate::pace::Pace;
use crate::remote::Remote;
use crate::sealed::hex;
use crate::spool::Facts;

/// Bytes of a part, unless the file needs larger ones. Tests have small files, and want parts.
pub(crate) const PART_BYTES: u64 = if cfg!(test) { 150 } else { 8 << 20 };
/// A store that puts the parts together has as long as for so many bytes.
const COMPLETE_BYTES: u64 = 16 << 20;
/// Stores take 10,000 parts.
const PARTS_MAX: u64 = 9_000;

/// See the head of this file.
pub(crate) struct Uploading {
    pub(crate) facts: Facts,
    pub(crate) name: String,
    input: Input,
    bytes: u64,
    done: u64,
    sum: Sha256,
    method: Method,
}

enum Method {
    /// One request.
    Whole,
    /// Parts that can be put again.
    Named { id: String, parts: Vec<PartId> },
    /// Parts that cannot.
    Nameless(Box<dyn MultipartUpload>),
}

/// What a step came to.
pub(crate) enum Advance {
    /// More is to come.
    On,
    /// The object is there.
    Done(Object),
}

/// Reads so many bytes at an offset.
pub(crate) fn slice(input: &Input, offset: u64, bytes: u64) -> std::io::Result<Bytes> {
    let mut part = Vec::with_capacity(usize::try_from(bytes).unwrap_or(0));
    input.at(offset).take(bytes).read_to_end(&mut part)?;
    if part.len() as u64 == bytes {
        Ok(part.into())
    } else {
        Err(std::io::Error::other("the file is shorter than it was"))
    }
}

impl Uploading {
    pub(crate) async fn begin(
        remote: &Remote,
        owner: &Owner,
        facts: Facts,
        name: String,
        input: Input,
        bytes: u64,
    ) -> Result<Self, ArchiveError> {
        let failed = |error: Error| remote.failed("cannot put", &name, &error);
        let path = remote.path(&name);
        let method = match &remote.parts {
            _ if bytes <= PART_BYTES => Method::Whole,
            Some(store) => {
                let begun = remote.within(0, store.create_multipart(&path)).await;
                let id = begun.map_err(failed)?;
                owner.note_upload(&Begun { object: name.clone(), id: id.clone() })?;
                Method::Named { id, parts: Vec::new() }
            }
            None => {
                let begun = remote.within(0, remote.store.put_multipart(&path)).await;
                Method::Nameless(begun.map_err(failed)?)
            }
        };
        Ok(Self { facts, name, input, bytes, done: 0, sum: Sha256::new(), method })
    }

    /// Whether a step that failed can be taken again.
    pub(crate) fn can_go_on(&self) -> bool {
        matches!(self.method, Method::Named { .. })
    }

    /// Bytes that were put, and all.
    pub(crate) fn progress(&self) -> (u64, u64) {
        (self.done, self.bytes)
    }

    /// Puts the next part, or ends.
    pub(crate) async fn advance(
        &mut self,
        remote: &Remote,
        pace: &mut Pace,
    ) -> Result<Advance, ArchiveError> {
        let part_bytes = PART_BYTES.max(self.bytes.div_ceil(PARTS_MAX));
        let bytes = part_bytes.min(self.bytes - self.done);
        let path = remote.path(&self.name);
        if bytes > 0 || self.bytes == 0 {
            let read = slice(&self.input, self.done, bytes);
            let part = read.map_err(|error| remote.damaged(&self.name, error.to_string()))?;
            pace.keep(bytes).await;
            let put = match &mut self.method {
                Method::Whole => {
                    let put = remote.store.put(&path, part.clone().into());
                    remote.within(bytes, put).await.map(drop)
                }
                Method::Named { id, parts } => {
                    let Some(store) = &remote.parts else { return Ok(Advance::On) };
                    let put = store.put_part(&path, id, parts.len(), part.clone().into());
                    remote.within(bytes, put).await.map(|part| parts.push(part))
                }
                Method::Nameless(upload) => {
                    remote.within(bytes, upload.put_part(part.clone().into())).await
                }
            };
            put.map_err(|error| remote.failed("cannot put", &self.name, &error))?;
            self.sum.update(&part);
            self.done += bytes;
        }
        if self.done < self.bytes {
            return Ok(Advance::On);
        }
        self.complete(remote).await?;
        let sha256 = hex(&self.sum.clone().finalize());
        Ok(Advance::Done(Object { name: self.name.clone(), bytes: self.bytes, sha256 }))
    }

    async fn complete(&mut self, remote: &Remote) -> Result<(), ArchiveError> {
        let path = remote.path(&self.name);
        let completed = match &mut self.method {
            Method::Whole => return Ok(()),
            Method::Named { id, parts } => {
                let Some(store) = &remote.parts else { return Ok(()) };
                let completed = store.complete_multipart(&path, id, parts.clone());
                remote.within(COMPLETE_BYTES, completed).await.map(drop)
            }
            Method::Nameless(upload) => {
                remote.within(COMPLETE_BYTES, upload.complete()).await.map(drop)
            }
        };
        let Err(error) = completed else { return Ok(()) };
        // The answer to an earlier try may have been lost.
        match remote.within(0, remote.store.head(&path)).await {
            Ok(found) if found.size == self.bytes => Ok(()),
            _ => Err(remote.failed("cannot put", &self.name, &error)),
        }
    }

    /// Gives the upload up. What the store does not hear of is ended by the next run.
    pub(crate) async fn abort(self, remote: &Remote) {
        let path = remote.path(&self.name);
        let _ = match (self.method, &remote.parts) {
            (Method::Named { id, .. }, Some(store)) => {
                remote.within(0, store.abort_multipart(&path, &id)).await
            }
            (Method::Nameless(mut upload), _) => remote.within(0, upload.abort()).await,
            _ => Ok(()),
        };
    }
}

/// Ends the upload in parts that the run before has begun, if it was killed meanwhile.
pub(crate) async fn end_earlier(remote: &Remote, owner: &Owner) -> Result<(), ArchiveError> {
    if let Some(begun) = owner.noted_upload()?
        && let Some(store) = &remote.parts
    {
        /// The claim was put a moment ago, so that the store is there.
        const TRIES: u32 = 3;
        for tries in 1..=TRIES {
            let path = remote.path(&begun.object);
            match remote.within(0, store.abort_multipart(&path, &begun.id)).await {
                Ok(()) | Err(Error::NotFound { .. }) => break,
                Err(error) if tries == TRIES => {
                    let error = remote.failed("cannot end the upload of", &begun.object, &error);
                    tracing::warn!("{error}; its parts may stay in the store");
                }
                Err(_) => {}
            }
        }
    }
    owner.forget_upload()
}
