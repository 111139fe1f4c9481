//! The sample `stillframe.conf`: it names every setting, and every line of it can be read.

use super::{Config, all, find};

const SAMPLE: &str = include_str!("../../../../../stillframe.conf");

/// The sample with what is commented out put into force.
fn in_force() -> String {
    let lines = SAMPLE.lines().map(|line| match line.strip_prefix('#') {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase()) => rest,
        _ => line,
    });
    lines.filter(|line| !line.starts_with("include")).collect::<Vec<_>>().join("\n")
}

fn load(text: &str) -> Config {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), text).expect("a temporary file");
    let mut config = Config::default();
    config.load_file(file.path()).expect("every line can be read");
    config
}

#[test]
fn the_sample_is_the_default() {
    let (sample, default) = (load(SAMPLE), Config::default());
    for setting in all() {
        assert_eq!((setting.get)(&sample), (setting.get)(&default), "{}", setting.name);
    }
}

#[test]
fn the_sample_names_every_setting() {
    let text = in_force();
    load(&text);
    let named: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_whitespace().next())
        .filter_map(|name| find(name).map(|setting| setting.name).or(Some(name)))
        .collect();
    for setting in all() {
        assert!(named.contains(&setting.name), "stillframe.conf lacks {}", setting.name);
    }
}
