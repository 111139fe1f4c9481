//! A store that fails calls on command: before they have an effect, or after it, so that the caller
//! does not know.

use std::fmt::{self, Display};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartId, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

use crate::remote::Remote;

/// See the head of this file.
#[derive(Debug, Default)]
pub(crate) struct Faulty {
    pub(crate) inner: InMemory,
    calls: AtomicU64,
    /// The call that fails; 0: none.
    fails: AtomicU64,
    /// How many of those from there on fail.
    count: AtomicU64,
    /// It fails after its effect.
    late: AtomicU64,
    /// It takes all calls, and answers none.
    pub(crate) hangs: AtomicBool,
}

impl Faulty {
    pub(crate) fn remote(self: &Arc<Self>) -> Remote {
        Remote::over("memory:///test".to_owned(), Path::from("prefix"), Arc::clone(self))
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Makes `count` calls fail, from call `call` on.
    pub(crate) fn fail(&self, call: u64, count: u64, late: bool) {
        self.fails.store(call, Ordering::Relaxed);
        self.count.store(count, Ordering::Relaxed);
        self.late.store(late.into(), Ordering::Relaxed);
    }

    fn error() -> Error {
        Error::Generic { store: "test", source: "the wire was cut".into() }
    }

    async fn call<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        if self.hangs.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let from = self.fails.load(Ordering::Relaxed);
        let fails = from > 0 && (from..from + self.count.load(Ordering::Relaxed)).contains(&number);
        if fails && self.late.load(Ordering::Relaxed) == 0 {
            return Err(Self::error());
        }
        let outcome = call.await;
        if fails { Err(Self::error()) } else { outcome }
    }
}

impl Display for Faulty {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("faulty")
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, at: &Path, it: PutPayload, how: PutOptions) -> Result<PutResult> {
        self.call(self.inner.put_opts(at, it, how)).await
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        Err(Error::NotImplemented { operation: "put_multipart".into(), implementer: "test".into() })
    }

    async fn get_opts(&self, at: &Path, options: GetOptions) -> Result<GetResult> {
        self.call(self.inner.get_opts(at, options)).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        let from = self.fails.load(Ordering::Relaxed);
        if from > 0 && (from..from + self.count.load(Ordering::Relaxed)).contains(&number) {
            return futures_util::stream::iter([Err(Self::error())]).boxed();
        }
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.call(self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.call(self.inner.copy_opts(from, to, options)).await
    }
}

#[async_trait]
impl MultipartStore for Faulty {
    async fn create_multipart(&self, at: &Path) -> Result<MultipartId> {
        self.call(self.inner.create_multipart(at)).await
    }

    async fn put_part(
        &self,
        at: &Path,
        id: &MultipartId,
        number: usize,
        it: PutPayload,
    ) -> Result<PartId> {
        self.call(self.inner.put_part(at, id, number, it)).await
    }

    async fn complete_multipart(
        &self,
        at: &Path,
        id: &MultipartId,
        parts: Vec<PartId>,
    ) -> Result<PutResult> {
        self.call(self.inner.complete_multipart(at, id, parts)).await
    }

    async fn abort_multipart(&self, at: &Path, id: &MultipartId) -> Result<()> {
        self.call(self.inner.abort_multipart(at, id)).await
    }
}
