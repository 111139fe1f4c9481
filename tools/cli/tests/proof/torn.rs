//! No image tears a transaction or a script, whatever the algorithm, while clients write at full
//! speed.

use crate::files::check_dump;
use crate::pairs::{Counts, Form, Pairs, WRITERS};
use crate::support::{ALGORITHMS, Kind, PUBLISHED, Server, Setup, redis_is_here, rounds};
use std::fs;
use std::path::PathBuf;

const PAIRS: usize = 100_000;

#[test]
fn images_by_imprint_hold_whole_transactions() {
    images_hold_whole_transactions("imprint", Form::Multi, rounds(4, 40));
}

#[test]
fn images_by_fork_hold_whole_transactions() {
    images_hold_whole_transactions("fork", Form::Multi, rounds(4, 40));
}

#[test]
fn images_by_naive_hold_whole_transactions() {
    images_hold_whole_transactions("naive", Form::Multi, rounds(4, 40));
}

/// The rows Redis-HG and Redis-PB of Li et al., and their kin: the originals lose updates.
#[test]
fn images_by_the_papers_algorithms_hold_whole_transactions() {
    for algorithm in PUBLISHED {
        images_hold_whole_transactions(algorithm, Form::Multi, rounds(2, 20));
    }
}

#[test]
fn images_hold_whole_scripts() {
    for algorithm in ALGORITHMS {
        images_hold_whole_transactions(algorithm, Form::Script, rounds(2, 20));
    }
}

#[test]
fn images_hold_whole_transactions_with_streams() {
    for algorithm in ALGORITHMS {
        images_hold_whole_transactions(algorithm, Form::Stream, rounds(2, 20));
    }
}

fn images_hold_whole_transactions(algorithm: &'static str, form: Form, images: usize) {
    let server = Server::start(Kind::subject(algorithm));
    let pairs = Pairs::new(PAIRS).by(form);
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
    let here = redis_is_here(&format!("torn ({algorithm}, {form:?}), judged by redis-server"));
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
        assert_eq!(client.ask("DBSIZE").int(), pairs.keys() as i64);
        let verdict = pairs.judge(&mut client, self.low, self.high);
        if let Err(fault) = verdict {
            panic!("{}: {fault}", self.path.display());
        }
    }
}

/// A save that cannot end for minutes holds up no script, though the script declares no key and
/// overwrites every key that the image holds.
#[test]
fn a_save_holds_up_no_script() {
    const KEYS: i64 = 2_000;
    for algorithm in ALGORITHMS {
        let flags = ["--snapshot-bandwidth", "10kb"];
        let server = Setup::new(Kind::Ours(algorithm)).flags(&flags).start();
        let (mut admin, mut client) = (server.client(), server.client());
        admin.ok("CONFIG SET rdbcompression no");
        let mut run = |source: &str| {
            client.call(&[b"EVAL", source.as_bytes(), b"0", KEYS.to_string().as_bytes()]).int()
        };
        let fill = "for i = 1, ARGV[1] do redis.call('SET', 'k' .. i, ('x'):rep(1000)) end \
            return 1";
        assert_eq!(run(fill), 1);
        admin.ok("BGSAVE");
        let overwrite = "for i = 1, ARGV[1] do \
                redis.call('SET', 'k' .. i, 'y') redis.call('SET', 'new' .. i, 'y') \
            end \
            return redis.call('DBSIZE')";
        for _ in 0..10 {
            assert_eq!(run(overwrite), 2 * KEYS);
        }
        assert_eq!(admin.info("rdb_bgsave_in_progress"), "1", "{algorithm}: {}", server.log());
        admin.ok("BGSAVE CANCEL");
    }
}
