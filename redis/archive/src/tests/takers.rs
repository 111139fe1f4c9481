//! Who may put, and what a reader gets.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use object_store::ObjectStoreExt;
use stillframe_durability::Until;

use super::faults::Faulty;
use super::server::{Server, Steps, copy_files, newest, restored, runtime, settings, source};
use crate::error::ArchiveError;
use crate::manifest::Manifest;
use crate::restore::fetch_from;
use crate::sealed::Unsealed;
use crate::settings::Settings;
use crate::shared::State;

fn archived() -> (Server, Arc<Faulty>, Steps) {
    let mut server = Server::new(0);
    let store = Arc::new(Faulty::default());
    let mut steps = Steps::new(&server.source(), &store, settings());
    server.set("k", "a value");
    server.save();
    server.set("k", "another value");
    steps.settle();
    (server, store, steps)
}

#[test]
fn a_store_that_says_nothing_is_told_by_the_age_of_what_waits() {
    let (mut server, store, mut steps) = archived();
    steps.worker.remote.patience.answer = Duration::from_millis(50);
    steps.shared.note_state(State::Current); // as the worker's thread does
    server.set("k", "a third value");
    store.hangs.store(true, Ordering::Relaxed);
    let mut late = Duration::ZERO;
    for _ in 0..3 {
        steps.rescan();
        let error = steps.turn().expect_err("nothing is answered").to_string();
        assert!(error.contains("no answer within 1 s"), "{error}");
        let status = steps.shared.status();
        assert!(status.behind > late, "{status:?}");
        late = status.behind;
    }
    assert_eq!(steps.shared.status().state, State::Behind, "{late:?}");
    store.hangs.store(false, Ordering::Relaxed);
    steps.settle();
    assert!(steps.shared.status().behind < late);
    assert_eq!(restored(&store, None).expect("it is there").1, server.states[3]);
}

#[test]
pub(super) fn another_directory_is_refused() {
    let (_server, store, _steps) = archived();
    let other = Server::new(0);
    let mut second = Steps::new(&other.source(), &store, settings());
    second.rescan();
    let refused = second.turn().expect_err("it is another's");
    assert!(matches!(refused, ArchiveError::Claimed { .. }), "{refused}");
    assert!(refused.is_final());
    let text = refused.to_string();
    assert!(text.contains("claims/0000000001") && text.contains("archive-take-over"), "{text}");
}

#[test]
fn another_directory_takes_over_when_told() {
    let (server, store, mut first) = archived();
    let before = restored(&store, Some(Until::Sequence(1))).expect("it is there");
    let mut other = Server::new(0);
    other.set("o", "of another");
    let over = Settings { take_over: true, ..settings() };
    let mut second = Steps::new(&other.source(), &store, over);
    second.settle();
    let manifest = newest(&store).expect("there is one");
    assert_eq!(manifest.sets.len(), 2);
    assert_eq!(restored(&store, None).expect("it is there").1, other.states[1]);
    assert_ne!(manifest.sets[0].owner, manifest.sets[1].owner);
    // The first one's history is there, until its age ends it.
    assert_eq!(before.1, server.states[1]);
    first.rescan();
    let mut server = server;
    server.set("k", "too late");
    let refused = (0..20).find_map(|_| first.turn().err()).expect("it has lost its claim");
    assert!(matches!(refused, ArchiveError::Claimed { .. }), "{refused}");
}

#[test]
pub(super) fn the_one_who_lost_its_claim_puts_nothing() {
    let (mut server, store, mut first) = archived();
    let mut second = Steps::new(&server.source(), &store, settings());
    second.settle(); // the same directory returns
    let before = newest(&store);
    server.set("k", "more");
    let names = runtime().block_on(store.remote().list("manifests")).expect("listed").len();
    let refused = (0..20).find_map(|_| {
        first.rescan();
        first.turn().err()
    });
    assert!(matches!(refused, Some(ArchiveError::Claimed { .. })), "{refused:?}");
    assert_eq!(newest(&store), before);
    let after = runtime().block_on(store.remote().list("manifests")).expect("listed").len();
    assert_eq!(after, names, "a manifest was put");
}

/// A copy that starts takes the claim; of the two, one is refused from then on.
#[test]
fn of_two_copies_one_is_refused() {
    let (server, store, mut first) = archived();
    let copy = tempfile::tempdir().expect("a folder");
    copy_files(server.path(), copy.path());
    let mut second = Steps::new(&source(copy.path()), &store, settings());
    second.settle();
    let mut server = server;
    server.set("k", "more");
    first.rescan();
    let refused = (0..20).find_map(|_| first.turn().err()).expect("it has lost its claim");
    assert!(matches!(refused, ArchiveError::Claimed { .. }), "{refused}");
    let mut again = Steps::new(&server.source(), &store, settings());
    let refused = again.turn().expect_err("its claim is not the newest");
    assert!(matches!(refused, ArchiveError::Claimed { .. }), "{refused}");
}

#[test]
fn a_torn_or_foreign_manifest_is_refused_by_name() {
    let (_server, store, _steps) = archived();
    let manifest = newest(&store).expect("there is one");
    let name = Manifest::name(manifest.claim, manifest.number + 1);
    let text = manifest.text();
    let other = text.replace(":1,", ":2,");
    let path = store.remote().path(&name);
    let cases: [(&[u8], &str); 5] = [
        (b"", "torn"),
        (&text.as_bytes()[..text.len() / 2], "torn"),
        (other.as_bytes(), "torn"),
        (text.as_bytes(), "foreign"),
        (b"{\"format\":\"x\"}\n", "torn"),
    ];
    for (bytes, what) in cases {
        let bytes = Bytes::copy_from_slice(bytes);
        runtime().block_on(store.inner.put(&path, bytes.into())).expect("it is put");
        let refused = restored(&store, None).expect_err("it is not sound").to_string();
        assert!(refused.contains(&name) && refused.contains(what), "{refused}");
    }
    let foreign = crate::sealed::seal(&serde_json::json!({"format": "other", "version": 1}));
    let newer =
        crate::sealed::seal(&serde_json::json!({"format": crate::sealed::FORMAT, "version": 2}));
    for text in [foreign, newer] {
        runtime().block_on(store.inner.put(&path, text.into())).expect("it is put");
        let refused = restored(&store, None).expect_err("it is not sound");
        assert!(matches!(
            refused,
            ArchiveError::Unusable { problem: Unsealed::Foreign(_) | Unsealed::Newer(2), .. }
        ));
    }
}

#[test]
pub(super) fn damaged_objects_are_named() {
    let (_server, store, _steps) = archived();
    let manifest = newest(&store).expect("there is one");
    for object in manifest.objects().filter(|object| object.bytes > 0) {
        let path = store.remote().path(&object.name);
        let sound = runtime().block_on(store.remote().get(&object.name)).expect("it is there");
        let mut damaged = sound.to_vec();
        damaged[0] ^= 1;
        runtime().block_on(store.inner.put(&path, damaged.into())).expect("it is put");
        let folder = tempfile::tempdir().expect("a folder");
        let fetched = runtime().block_on(fetch_from(&store.remote(), None, folder.path()));
        let is_needed = manifest.sets[0].images.iter().rev().skip(1);
        if !is_needed.clone().any(|image| image.object == *object) {
            let refused = fetched.expect_err("it is damaged").to_string();
            assert!(refused.contains(&object.name), "{refused}");
        }
        runtime().block_on(store.inner.put(&path, sound.into())).expect("it is put");
    }
}

/// What a manifest names stays for a while after a newer one does not.
#[test]
pub(super) fn a_reader_is_not_left_without_its_objects() {
    let mut server = Server::new(0);
    let store = Arc::new(Faulty::default());
    let settings = Settings { keep: Duration::from_millis(1), keep_images: 1, ..settings() };
    let mut steps = Steps::new(&server.source(), &store, settings);
    server.set("k", "a value");
    server.save();
    steps.settle();
    let read = newest(&store).expect("there is one");
    std::thread::sleep(Duration::from_millis(3));
    server.restart();
    server.save();
    std::thread::sleep(Duration::from_millis(3));
    server.set("k", "more");
    server.save();
    steps.settle();
    assert_ne!(newest(&store).expect("there is one").sets[0].images, read.sets[0].images);
    for object in read.objects() {
        let got = runtime().block_on(store.remote().get(&object.name));
        assert!(got.is_ok(), "{} is gone", object.name);
    }
}

/// An upload in parts that a kill has cut is ended by the next run.
#[test]
fn an_upload_that_was_cut_leaves_nothing() {
    let mut server = Server::new(0);
    for number in 0..40 {
        server.set(&format!("key {number}"), "a value of some length");
    }
    server.save();
    let store = Arc::new(Faulty::default());
    let mut steps = Steps::new(&server.source(), &store, settings());
    steps.rescan();
    let mut seen = false;
    for _ in 0..200 {
        let _ = steps.turn();
        if steps.spool.files.holds("upload").expect("readable") {
            seen = true;
            break;
        }
    }
    assert!(seen, "an upload in parts began");
    drop(steps);
    let mut steps = Steps::new(&server.source(), &store, settings());
    steps.settle();
    assert!(!steps.spool.files.holds("upload").expect("readable"));
    assert_eq!(restored(&store, None).expect("it is there").1, server.states[40]);
}
