//! What is made from the command line itself: version, man pages, completions.

use crate::support::stillframe;
use std::process::Command;

fn said(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stillframe"));
    let output = command.args(arguments).output().expect("it ends by itself");
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_version_names_the_commit() {
    let text = said(&["--version"]);
    let version = text.strip_prefix("stillframe 0.").expect("the name and the version");
    let head = Command::new("git").args(["rev-parse", "HEAD"]).output();
    match head.ok().filter(|it| it.status.success()) {
        Some(head) => {
            let head = String::from_utf8_lossy(&head.stdout).into_owned();
            assert!(version.contains(&format!("(commit {})", &head[..12])), "{text} at {head}");
        }
        None => println!("SKIPPED: this is no clone"),
    }
    assert_eq!(said(&["serve", "--version"]).trim(), text.trim().replacen(' ', "-serve ", 1));
}

#[test]
fn every_command_has_a_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().display().to_string();
    assert_eq!(said(&["man", "--all", &at]), "");
    let page = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("a page");
    for command in ["serve", "check", "inspect", "import", "load", "hunt", "rewind", "lab-compare"]
    {
        let page = page(&format!("stillframe-{command}.1"));
        assert!(page.contains(".SH SYNOPSIS") && page.contains("Examples:"), "{command}: {page}");
    }
    assert!(page("stillframe-serve.1").contains("maxmemory"), "the flags are its directives");
    assert_eq!(said(&["man", "serve"]), page("stillframe-serve.1"));
    assert!(!folder.path().join("stillframe-lab-case.1").exists(), "what is hidden has none");
    assert_eq!(stillframe(&["man", "nothing"]).status.code(), Some(2));
}

#[test]
fn completions_know_the_directives() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = said(&["completions", shell]);
        for word in ["rewind", "accept-loss", "appendfsync", "metrics-port"] {
            assert!(text.contains(word), "{shell} lacks {word}");
        }
    }
    let text = said(&["completions", "bash"]);
    let script = format!(
        "{text}\nCOMP_WORDS=(stillframe serve --appendfs) COMP_CWORD=2\n\
         _stillframe stillframe --appendfs serve; echo \"${{COMPREPLY[@]}}\""
    );
    let output = Command::new("bash").args(["-c", &script]).output().expect("bash");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "--appendfsync", "{output:?}");
}
