//! A replica is made while its primary is written at full speed, and ends equal.

use super::{
    Who, assert_equal, fill, ours, under_load, wait_for_all, wait_for_link, wait_for_stream,
};
use crate::pairs::{Form, Pairs, WRITERS};
use crate::support::{Random, Server, redis_is_here, rounds, wait_until};

#[test]
fn redis_follows_us_and_ends_equal() {
    if redis_is_here("redis follows us") {
        let mut random = Random::new("redis follows us");
        for algorithm in ["imprint", "fork"] {
            takes_one_image(
                &ours(algorithm, "--repl-diskless-sync-delay 0"),
                Who::Redis,
                &mut random,
            );
        }
    }
}

#[test]
fn redis_follows_us_from_a_file_and_ends_equal() {
    if redis_is_here("redis follows us from a file") {
        let mut random = Random::new("redis follows us from a file");
        takes_one_image(&ours("imprint", "--repl-diskless-sync no"), Who::Redis, &mut random);
    }
}

/// Not from one image always: FLUSHALL has Redis kill the child that writes it.
#[test]
fn we_follow_redis_and_end_equal() {
    if redis_is_here("we follow redis") {
        let mut random = Random::new("we follow redis");
        for flags in ["--repl-diskless-sync yes", "--repl-diskless-sync no"] {
            ends_equal(&Who::Redis.start(flags), Who::Ours, &mut random);
        }
    }
}

#[test]
fn we_follow_ourselves_and_end_equal() {
    let mut random = Random::new("we follow ourselves");
    takes_one_image(&Who::Ours.start(""), Who::Ours, &mut random);
}

fn ends_equal(primary: &Server, replica: Who, random: &mut Random) {
    fill(primary, random, 500);
    let replica = under_load(primary.port, random, || {
        let replica = replica.follow(primary.port);
        wait_for_link(&replica);
        (0..rounds(5, 400)).for_each(|_| wait_for_stream(&replica));
        replica
    });
    assert_equal(primary, &replica);
}

fn takes_one_image(primary: &Server, replica: Who, random: &mut Random) {
    ends_equal(primary, replica, random);
    assert_eq!(primary.client().info("sync_full"), "1", "{}", primary.log());
}

#[test]
fn two_replicas_share_one_image() {
    if !redis_is_here("two replicas share one image") {
        return;
    }
    let mut random = Random::new("two replicas share one image");
    let primary =
        ours("imprint", "--repl-diskless-sync-delay 120 --repl-diskless-sync-max-replicas 2");
    fill(&primary, &mut random, 500);
    let replicas = [Who::Redis.follow(primary.port), Who::Ours.follow(primary.port)];
    under_load(primary.port, &mut random, || replicas.iter().for_each(wait_for_link));
    replicas.iter().for_each(|replica| assert_equal(&primary, replica));
    assert!(primary.log().contains("sending an image to 2 replicas"), "{}", primary.log());
}

#[test]
fn a_replica_never_shows_half_a_transaction() {
    a_replica_never_shows_a_half(Form::Multi);
}

#[test]
fn a_replica_never_shows_half_a_script() {
    a_replica_never_shows_a_half(Form::Script);
}

#[test]
fn a_replica_never_shows_half_a_transaction_with_streams() {
    a_replica_never_shows_a_half(Form::Stream);
}

/// Writers write before, during and after the first image of the replica.
fn a_replica_never_shows_a_half(form: Form) {
    use Who::{Ours, Redis};
    for (primary, replica) in [(Ours, Ours), (Ours, Redis), (Redis, Ours)] {
        let name = format!("{form:?} of {primary:?} at {replica:?}");
        if (primary, replica) != (Ours, Ours) && !redis_is_here(&name) {
            continue;
        }
        let primary = primary.start("");
        // On a busy machine the replica may be far behind: that is no reason to drop it here.
        let limit: &[&[u8]] = &[b"CONFIG", b"SET", b"client-output-buffer-limit"];
        primary.client().call(&[limit, &[b"replica 0 0 0"]].concat());
        let pairs = Pairs::new(200).by(form);
        pairs.prefill(&mut primary.client());
        let replica = std::thread::scope(|scope| {
            let _guard = pairs.stop.at_the_end();
            for w in 0..WRITERS {
                let (primary, pairs) = (&primary, &pairs);
                scope.spawn(move || pairs.write(w, &mut primary.client()));
            }
            wait_until("writes begin", || {
                Pairs::counts(&pairs.acknowledged).iter().all(|&n| n > 0)
            });
            let replica = replica.follow(primary.port);
            wait_for_link(&replica);
            show_no_half(&pairs, &replica, &name);
            replica
        });
        wait_for_all(&primary, &replica);
        let counts = Pairs::counts(&pairs.acknowledged);
        let verdict = pairs.judge(&mut replica.client(), counts, counts);
        assert_eq!(verdict, Ok(counts), "{name}");
    }
}

/// Reads all pairs of a replica again and again, while its primary is written.
fn show_no_half(pairs: &Pairs, replica: &Server, name: &str) {
    let mut client = replica.client();
    let mut written = 0;
    for _ in 0..rounds(100, 5_000) {
        // One MGET reads all pairs: one instant.
        let image = pairs.read(&mut client).expect("all pairs are there");
        if let Some((a, b)) = image.iter().find(|(a, b)| a != b) {
            panic!("{name}: half a transaction: {a} and {b}");
        }
        written = image.iter().map(|pair| pair.0).max().unwrap_or(0);
    }
    wait_until("the stream moves", || {
        let image = pairs.read(&mut client).expect("all pairs are there");
        image.iter().any(|pair| pair.0 > written)
    });
}
