//! A scan misses nothing, and ends, while its keys change: redis-server passes the test that the
//! crate stillframe-commands runs on our commands.

use stillframe_peers::scanning::misses_nothing_and_ends;

use crate::support::{Kind, Random, redis_is_here};
use crate::transcript::Theatre;

#[test]
fn a_scan_of_redis_misses_nothing_and_ends_while_keys_are_added_and_replaced() {
    let test = "a scan, of redis-server itself";
    if redis_is_here(test) {
        misses_nothing_and_ends(&mut Theatre::open(Kind::Redis), &mut Random::new(test));
    }
}
