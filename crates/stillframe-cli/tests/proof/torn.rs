//! No image tears a transaction, whatever the algorithm, while clients write at full speed.

use crate::files::check_dump;
use crate::pairs::{Counts, Pairs, WRITERS};
use crate::support::{Kind, PUBLISHED, Server, Setup, redis_is_here, rounds};
use std::fs;
use std::path::PathBuf;

const PAIRS: usize = 100_000;

#[test]
fn images_by_imprint_hold_whole_transactions() {
    images_hold_whole_transactions("imprint", rounds(4, 40));
}

#[test]
fn images_by_fork_hold_whole_transactions() {
    images_hold_whole_transactions("fork", rounds(4, 40));
}

#[test]
fn images_by_naive_hold_whole_transactions() {
    images_hold_whole_transactions("naive", rounds(4, 40));
}

/// The rows Redis-HG and Redis-PB of Li et al., and their kin: the originals lose updates.
#[test]
fn images_by_the_papers_algorithms_hold_whole_transactions() {
    for algorithm in PUBLISHED {
        images_hold_whole_transactions(algorithm, rounds(2, 20));
    }
}

fn images_hold_whole_transactions(algorithm: &'static str, images: usize) {
    let server = Server::start(Kind::subject(algorithm));
    let pairs = Pairs::new(PAIRS);
    pairs.prefill(&mut server.client());
    let images = std::thread::scope(|scope| {
        let _guard = pairs.stop.at_the_end();
        for w in 0..WRITERS {
            let (server, pairs) = (&server, &pairs);
            scope.spawn(move || pairs.write(w, &mut server.client()));
        }
        take_images(&server, &pairs, images)
    });
    // The real redis-server is the judge of each file; ours judges where it is absent.
    let here = redis_is_here(&format!("torn ({algorithm}), judged by redis-server"));
    let judge = if here { Kind::Redis } else { Kind::subject(algorithm) };
    for image in &images {
        image.judge(judge, &pairs);
    }
}

/// One dump file that was kept, and between which counts its image began.
struct Kept {
    path: PathBuf,
    low: Counts,
    high: Counts,
}

fn take_images(server: &Server, pairs: &Pairs, count: usize) -> Vec<Kept> {
    let mut client = server.client();
    let mut images = Vec::new();
    for number in 0..count {
        let low = Pairs::counts(&pairs.acknowledged);
        client.ok("BGSAVE");
        let high = Pairs::counts(&pairs.sent);
        client.wait_for_save();
        assert_eq!(client.info("rdb_last_bgsave_status"), "ok", "{}", server.log());
        // A second name for the file: the next image replaces the first name only.
        let path = server.folder.join(format!("{number}.rdb"));
        fs::hard_link(server.dump(), &path).expect("a second name for the dump");
        images.push(Kept { path, low, high });
    }
    let [first, .., last] = &images[..] else { panic!("at least two images") };
    assert!(last.low[0] > first.low[0], "the writers stand still while images are taken");
    images
}

impl Kept {
    fn judge(&self, judge: Kind, pairs: &Pairs) {
        check_dump(&self.path);
        let folder = tempfile::tempdir().expect("a folder");
        fs::copy(&self.path, folder.path().join("dump.rdb")).expect("a copy of the image");
        let reader = Setup::new(judge).folder(folder.path()).start();
        let mut client = reader.client();
        assert_eq!(client.ask("DBSIZE").int(), 2 * PAIRS as i64);
        let verdict =
            pairs.read(&mut client).and_then(|image| pairs.check(&image, self.low, self.high));
        if let Err(fault) = verdict {
            panic!("{}: {fault}", self.path.display());
        }
    }
}
