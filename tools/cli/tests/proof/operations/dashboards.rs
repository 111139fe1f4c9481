//! What shows the figures and alerts on them: each name there is one of `/metrics`, as
//! `shape::names_of_figures_stay` pins them; those of groups and archives, which a server by itself
//! does not have, are in the list of figures.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const FIGURES: &str = include_str!("../../figures.txt");
const LIST: &str = include_str!("../../../../../redis/server/src/commands/figures/list.rs");
const PAGE: &str = include_str!("../../../../../redis/server/src/turn/metrics/page.html");

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

/// The names of metrics in a text.
fn named(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let starts = ["redis_", "stillframe_"];
    // Labels of `redis_instance_info`.
    let labels = ["stillframe_version", "redis_version", "redis_mode"];
    words
        .filter(|word| starts.iter().any(|start| word.starts_with(start) && word != start))
        .filter(|word| !labels.contains(word))
        .collect()
}

#[test]
fn dashboards_and_alerts_name_figures_that_are_there() {
    let there: BTreeSet<&str> = FIGURES
        .lines()
        .filter_map(|line| {
            let (kind, rest) = line.split_once(' ')?;
            let is_metric = ["gauge", "counter", "histogram"].contains(&kind);
            is_metric.then(|| rest.split(' ').next().expect("a name"))
        })
        .chain(
            named(LIST)
                .into_iter()
                .filter(|it| ["raft", "archive"].iter().any(|of| it.contains(of))),
        )
        .collect();
    for (file, least) in [("grafana.json", 40), ("alerts.yml", 12), ("alerts.test.yml", 12)] {
        let text = std::fs::read_to_string(packaging().join(file)).expect("it is there");
        let names = named(&text);
        assert!(names.len() >= least, "{file}: {names:?}");
        let unknown: Vec<_> = names.difference(&there).collect();
        assert!(unknown.is_empty(), "{file} names {unknown:?}, which /metrics lacks");
    }
    let names = named(PAGE);
    // The page puts one name together from two parts.
    let unknown: Vec<_> =
        names.difference(&there).filter(|it| **it != "stillframe_snapshot_").collect();
    assert!(names.len() >= 20 && unknown.is_empty(), "the page names {unknown:?}");
}
