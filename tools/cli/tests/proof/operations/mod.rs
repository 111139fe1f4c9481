//! What operators need around the data: TLS, unix sockets, metrics, logs, and the end.

pub(crate) mod certificates;
mod dashboards;
mod ending;
mod figures;
mod followers;
mod logs;
mod secure;
mod shape;
mod sockets;

use std::process::{Command, Output, Stdio};

/// A program's text on both its outputs, and whether it succeeded.
fn said(program: &str, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(program);
    let Output { status, stdout, stderr } =
        command.args(arguments).stdin(Stdio::null()).output().expect("the program starts");
    let text = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    (status.success(), text)
}
