//! Each snippet of C in docs/embed/c.md is part of an example, which `scripts/test-c.sh` compiles
//! and runs.

use std::fs;
use std::path::Path;

#[test]
fn snippets_of_the_page_are_parts_of_examples() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("../docs/embed/c.md")).expect("the page");
    let mut examples = String::new();
    for entry in fs::read_dir(root.join("examples")).expect("the examples") {
        let path = entry.expect("a file").path();
        if path.extension().is_some_and(|kind| kind == "c") {
            examples += &fs::read_to_string(path).expect("text");
        }
    }
    let plain = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
    };
    let (examples, mut count) = (plain(&examples), 0);
    for snippet in page.split("```c\n").skip(1) {
        let snippet = plain(snippet.split("```").next().unwrap_or_default());
        let found = examples.windows(snippet.len()).any(|lines| lines == snippet);
        assert!(found, "no example has this:\n{}", snippet.join("\n"));
        count += 1;
    }
    assert!(count > 0, "the page has no snippets");
}
