//! Real programs that people run on Redis, beside redis-server with the same outcome. All of them
//! run by `.ci/long frameworks`; the fast ones here, where their packages are installed.

use crate::support::{Peer, are_here, python, skipped};
use std::process::Command;

/// Runs programs of `frameworks/` with what its cache folder has installed.
fn same_outcome(test: &str, programs: &[&str]) {
    if !are_here(test, &[Peer::RedisServer, Peer::RedisPy]) {
        return;
    }
    let runner = concat!(env!("CARGO_MANIFEST_DIR"), "/../../frameworks/run.py");
    let mut command = Command::new(python());
    command.args(["-B", runner, "--no-install", "--server", env!("CARGO_BIN_EXE_stillframe")]);
    let output = command.args(programs).output().expect("the runner starts");
    let text = String::from_utf8_lossy(&output.stdout);
    if output.status.code() == Some(3) {
        return skipped(test, &format!("{}; .ci/long frameworks installs them", text.trim_end()));
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}");
}

#[test]
fn clients_for_clusters_follow_a_group_whose_leader_is_killed() {
    let test = "clients_for_clusters_follow_a_group_whose_leader_is_killed";
    if !are_here(test, &[Peer::RedisPy]) {
        return;
    }
    let runner = concat!(env!("CARGO_MANIFEST_DIR"), "/../../frameworks/groups.py");
    let mut command = Command::new(python());
    command.args(["-B", runner, "--no-install", "--server", env!("CARGO_BIN_EXE_stillframe")]);
    let output = command.output().expect("the runner starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(3) {
        return skipped(test, "no client is installed; .ci/long frameworks installs them");
    }
    assert!(output.status.success(), "{text}\n{errors}");
}

#[test]
fn programs_of_python_end_as_on_redis_server() {
    let programs = ["redis_py_lock", "redlock_contended", "flask_limiter_app"];
    same_outcome("programs_of_python_end_as_on_redis_server", &programs);
}

#[test]
fn programs_of_node_end_as_on_redis_server() {
    let programs = ["ioredis_client", "redlock_contended_npm", "bee_queue_jobs"];
    same_outcome("programs_of_node_end_as_on_redis_server", &programs);
}
