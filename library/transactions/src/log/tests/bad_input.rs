//! What is not ours, damaged or wrong is refused in a sentence, and nothing is changed.

use std::fs;

use crate::{Imprint, algorithms::bare::Bare};
use stillframe_durability::Application;

use super::*;

type Bank = Durable<Imprint>;

fn refused(result: Result<(Bank, Recovery), Error>) -> String {
    result.map(|_| ()).expect_err("it must be refused").to_string()
}

/// A bank with an image and a log behind it.
fn bank(path: &std::path::Path) {
    let (bank, _) = Bank::open(path, settings(), Options::default()).expect("an empty directory");
    let mut worker = bank.worker().expect("it is alone");
    transact(&mut worker, 0, 1).expect("the disk is sound");
    bank.checkpoint().expect("the disk is sound");
    transact(&mut worker, 0, 2).expect("the disk is sound");
}

#[test]
fn other_directories_shapes_and_applications_are_refused() {
    let folder = tempfile::tempdir().expect("a directory");
    fs::write(folder.path().join("notes"), "mine").expect("a file");
    let said = refused(Bank::open(folder.path(), settings(), Options::default()));
    assert!(said.contains("is not empty and holds no state"), "{said}");
    assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 2, "notes and the lock");

    let folder = tempfile::tempdir().expect("a directory");
    bank(folder.path());
    let said = refused(Bank::open(folder.path(), Settings::new(3, 4), Options::default()));
    assert!(said.contains(&format!("holds {RECORDS} records of {WORDS} words")), "{said}");
    let other = Options::default().application(Application::new("other", 1));
    let said = refused(Bank::open(folder.path(), settings(), other));
    assert!(said.contains("was opened for application \"other\""), "{said}");

    let (_open, _) = Bank::open(folder.path(), settings(), Options::default()).expect("sound");
    let said = refused(Bank::open(folder.path(), settings(), Options::default()));
    assert!(said.contains("is in use by"), "{said}");
}

#[test]
fn damage_is_told_and_never_read() {
    let folder = tempfile::tempdir().expect("a directory");
    bank(folder.path());
    let files: Vec<_> = ["", "image-1", "log-1"]
        .iter()
        .flat_map(|name| fs::read_dir(folder.path().join(name)).expect("a directory"))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file() && !path.to_string_lossy().contains("lock"))
        .collect();
    assert!(files.len() >= 3, "{files:?}");
    for file in files {
        let sound = fs::read(&file).expect("a file");
        // The last bytes of a log are its torn tail, and a mark; those of the rest are guarded.
        for at in (0..sound.len().saturating_sub(200)).chain([0]) {
            let mut damaged = sound.clone();
            damaged[at] ^= 0x40;
            fs::write(&file, &damaged).expect("a file");
            let said = refused(Bank::open(folder.path(), settings(), Options::default()));
            assert!(said.contains("damaged") || said.contains("version"), "{at}: {said}");
        }
        fs::write(&file, &sound).expect("a file");
    }
    let image = folder.path().join("image-1");
    fs::rename(&image, folder.path().join("kept")).expect("a directory");
    let said = refused(Bank::open(folder.path(), settings(), Options::default()));
    assert!(said.contains("image-1"), "{said}");
    fs::rename(folder.path().join("kept"), &image).expect("a directory");
    let (bank, recovery) =
        Bank::open(folder.path(), settings(), Options::default()).expect("sound");
    assert_eq!((recovery.image, recovery.commits), (1, 1));
    assert_eq!(last(&mut bank.worker().expect("it is alone"), 0).expect("sound"), 2);
}

#[test]
fn an_algorithm_without_images_has_a_log_alone() {
    let folder = tempfile::tempdir().expect("a directory");
    for round in 1..3 {
        let (bank, _) = Durable::<Bare>::open(folder.path(), settings(), Options::default())
            .expect("an empty directory, or its own");
        assert!(bank.checkpoint().expect_err("it has none").to_string().contains("'none'"));
        transact(&mut bank.worker().expect("it is alone"), 0, round).expect("the disk is sound");
    }
}

#[test]
fn no_workers_and_foreign_tickets_are_told() {
    let folder = tempfile::tempdir().expect("a directory");
    let said = refused(Bank::open(folder.path(), settings().workers(0), Options::default()));
    assert!(said.contains("all 0 workers"), "{said}");
    let [busy, idle] =
        [(); 2].map(|()| open::<Imprint>(&SimulatedDisk::default()).expect("sound").0);
    let mut worker = busy.worker().expect("it is alone");
    let (_, ticket) = worker.submit(|tx| Ok::<_, Stop<()>>(tx.write(0, 0, 1)?)).expect("sound");
    let said = idle.wait::<()>(ticket).expect_err("it has no such record").to_string();
    assert!(said.contains("no record 1"), "{said}");
    assert_eq!(idle.failure(), None);
    transact(&mut idle.worker().expect("it is alone"), 0, 1).expect("nothing has failed");
    busy.wait::<()>(ticket).expect("it is durable");
}

#[test]
fn a_panic_harms_nobody_and_is_not_logged() {
    let disk = SimulatedDisk::default();
    let (bank, _) = open::<Imprint>(&disk).expect("sound");
    let mut worker = bank.worker().expect("it is alone");
    transact(&mut worker, 0, 1).expect("sound");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        worker.run(|tx| {
            tx.write(0, 0, 99)?;
            if tx.read(0, 0)? == 99 {
                panic!("on purpose");
            }
            Ok::<_, Stop<()>>(())
        })
    }));
    panicked.expect_err("it goes on to the caller");
    transact(&mut worker, 0, 2).expect("the locks are free");
    let aborted = worker.run(|tx| {
        tx.write(0, 0, 99)?;
        Err::<(), _>(Stop::Abort("no"))
    });
    assert!(matches!(aborted, Err(Refused::Aborted("no"))), "{aborted:?}");
    drop(worker);
    drop(bank);
    let (_, recovery) = open::<Imprint>(&disk).expect("sound");
    assert_eq!(recovery.commits, 2);
}
