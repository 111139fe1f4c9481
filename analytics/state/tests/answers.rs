//! Questions to views, beside the state in collections of the standard library and, where it is
//! there, DuckDB over the same as CSV.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use arrow::array::{AsArray as _, RecordBatch};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt as _;
use stillframe_peers::{Random, Watchdog, rounds};
use stillframe_state::stillframe::OnFull;
use stillframe_state::{Column, Options, State, Store};
use stillframe_state_query::{Words, register, tables};

mod world;
use world::{Model, QUESTIONS, World};

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(3).build().expect("threads")
}

fn context(words: Arc<dyn Words>, threads: usize) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(threads);
    let context = SessionContext::new_with_config(config);
    register::<World>(&context, words).expect("it is that root");
    context
}

fn ask(context: &SessionContext, sql: &str) -> Result<Vec<RecordBatch>, String> {
    let answer = async { context.sql(sql).await?.collect().await };
    runtime().block_on(answer).map_err(|error| format!("{sql}: {error}"))
}

/// Rows as CSV, with quotes around texts.
fn csv(batches: &[RecordBatch]) -> String {
    let mut text = String::new();
    let Some(first) = batches.first() else { return text };
    let names: Vec<&str> =
        first.schema_ref().fields().iter().map(|it| it.name().as_str()).collect();
    text.push_str(&names.join(","));
    text.push('\n');
    for batch in batches {
        let options = FormatOptions::default();
        let columns = batch.columns().iter();
        let columns: Vec<_> = columns
            .map(|it| (it, ArrayFormatter::try_new(it, &options).expect("it can be shown")))
            .collect();
        for row in 0..batch.num_rows() {
            let cells = columns.iter().map(|(array, cells)| {
                let is_text = array.data_type().is_string() && !array.is_null(row);
                let cell = cells.value(row).to_string();
                match is_text {
                    true => format!("\"{}\"", cell.replace('"', "\"\"")),
                    false => cell,
                }
            });
            text.push_str(&cells.collect::<Vec<_>>().join(","));
            text.push('\n');
        }
    }
    text
}

/// CSV without its quotes, and with whole floats as integers.
fn plain(text: &str) -> String {
    text.replace(".0,", ",").replace(".0\n", "\n").replace('"', "")
}

fn compare(context: &SessionContext, model: &Model) -> Result<(), String> {
    for ((name, sql), (table, wanted)) in QUESTIONS.iter().zip(model.tables()) {
        assert_eq!(*name, table);
        let (found, wanted) = (plain(&csv(&ask(context, sql)?)), plain(&wanted));
        if found != wanted && wanted.lines().count() + found.lines().count() > 1 {
            let at = found.lines().zip(wanted.lines()).position(|(a, b)| a != b);
            return Err(format!("{name}, line {at:?} of\n{found}\nand not\n{wanted}"));
        }
    }
    Ok(())
}

fn open(path: &Path, options: impl FnOnce(Options) -> Options) -> (Store, World) {
    let mut store: Store =
        Store::open(path, options(World::options("world", 1 << 22))).expect("a store");
    let world = World::attach(&mut store).expect("it is new");
    (store, world)
}

#[test]
fn answers_are_those_of_the_instant_while_the_writer_goes_on() {
    let _watchdog = Watchdog::start();
    let data = tempfile::tempdir().expect("a directory");
    let (mut store, world) = open(data.path(), |options| options);
    let (mut random, mut model) = (Random::new("questions"), Model::default());
    for round in 0..rounds(4, 60) {
        for _ in 0..random.below(8000) {
            world.act(&mut store, &mut model, &mut random);
        }
        let (view, then) = (Arc::new(store.view().expect("a view")), model.clone());
        let asked = thread::spawn(move || compare(&context(view, 1 + round % 3), &then));
        while !asked.is_finished() {
            world.act(&mut store, &mut model, &mut random);
        }
        asked.join().expect("it asks").unwrap_or_else(|wrong| panic!("{round}: {wrong}"));
    }
}

#[test]
fn duckdb_answers_the_same_from_csv() {
    let Some(python) = std::env::var_os("STILLFRAME_DUCKDB") else {
        eprintln!("!!! SKIPPED: STILLFRAME_DUCKDB names no Python that has duckdb");
        return;
    };
    let _watchdog = Watchdog::start();
    let data = tempfile::tempdir().expect("a directory");
    let (mut store, world) = open(data.path(), |options| options);
    let (mut random, mut model) = (Random::new("questions for DuckDB"), Model::default());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/duckdb_answers.py");
    let questions = include_str!("questions.sql");
    for _ in 0..rounds(2, 30) {
        for _ in 0..random.below(20_000) {
            world.act(&mut store, &mut model, &mut random);
        }
        let out = tempfile::tempdir().expect("a directory");
        for (name, text) in model.tables() {
            std::fs::write(out.path().join(format!("{name}.csv")), text).expect("it is written");
        }
        let view = Arc::new(store.view().expect("a view"));
        let path = out.path().to_owned();
        let asked = thread::spawn(move || {
            let context = context(view, 2);
            for (number, sql) in questions.lines().enumerate() {
                let answer = csv(&ask(&context, sql).expect("an answer"));
                std::fs::write(path.join(format!("{number}.answer")), answer).expect("written");
            }
        });
        while !asked.is_finished() {
            world.act(&mut store, &mut model, &mut random);
        }
        asked.join().expect("it asks");
        let compared = Command::new(&python).arg(&script).arg(out.path()).output();
        let compared = compared.expect("Python starts");
        let (text, error) = (compared.stdout, compared.stderr);
        assert!(
            compared.status.success(),
            "{}{}",
            String::from_utf8_lossy(&text),
            String::from_utf8_lossy(&error)
        );
    }
}

#[test]
fn a_view_that_is_given_up_ends_the_question_with_that_sentence() {
    let _watchdog = Watchdog::start();
    let data = tempfile::tempdir().expect("a directory");
    let small = |mut options: Options| {
        options.memory = options.memory.budget(1 << 20, OnFull::Cancel);
        options.views(4, OnFull::Cancel)
    };
    let (mut store, world) = open(data.path(), small);
    for number in 0..200_000 {
        world.trail.push(&mut store, [number; 3]).expect("memory");
    }
    let view = Arc::new(store.view().expect("a view"));
    let context = context(view, 1);
    let runtime = runtime();
    let rows = "select index, value from trail";
    let stream = async { context.sql(rows).await?.execute_stream().await };
    let mut stream = runtime.block_on(stream).expect("a plan");
    let first = runtime.block_on(stream.next()).expect("a batch").expect("the view is there");
    assert!(first.num_rows() < 8192, "the view goes in the middle");
    for number in 0..200_000 {
        world.trail.set(&mut store, number, [7; 3]).expect("it is there");
    }
    let rest: Vec<_> = runtime.block_on(stream.collect());
    let ends: Vec<String> =
        rest.iter().filter_map(|it| it.as_ref().err()).map(ToString::to_string).collect();
    assert_eq!(ends.len(), 1, "{ends:?}");
    for error in [&ends[0], &ask(&context, rows).expect_err("it has no words")] {
        assert!(error.contains("the view was given up"), "{error}");
    }
}

#[test]
fn a_scan_reads_the_columns_and_rows_that_are_asked_for() {
    let data = tempfile::tempdir().expect("a directory");
    let (mut store, world) = open(data.path(), |options| options);
    let mut words = vec![0; World::layout().words()];
    let copied = World::attach(&mut words).expect("it is new");
    for number in 0..100_000_u32 {
        world.trail.push(&mut store, [number; 3]).expect("memory");
        copied.trail.push(&mut words, [number; 3]).expect("memory");
    }
    let view: Arc<dyn Words> = Arc::new(store.view().expect("a view"));
    for words in [view, Arc::new(words)] {
        let context = context(Arc::clone(&words), 3);
        let plan = csv(&ask(&context, "explain select index from trail limit 5").expect("a plan"));
        assert!(plan.contains("projection=[index]") && plan.contains("fetch=5"), "{plan}");
        let five = ask(&context, "select index from trail limit 5").expect("an answer");
        assert_eq!(five.iter().map(RecordBatch::num_rows).sum::<usize>(), 5);
        let batches = ask(&context, "select index from trail").expect("an answer");
        let rows: Vec<usize> = batches.iter().map(RecordBatch::num_rows).collect();
        assert_eq!((rows.iter().sum::<usize>(), rows.iter().max()), (100_000, Some(&8192)));
        let all = ask(&context, "select count(*), max(index), sum(value[2]) from trail");
        assert!(csv(&all.expect("an answer")).ends_with("\n100000,99999,4999950000\n"));
        let trail = tables::<World>(&words).expect("tables");
        assert!(trail.iter().any(|it| it.name() == "trail"));
    }
}

#[test]
fn texts_end_a_batch_before_it_is_too_long() {
    let data = tempfile::tempdir().expect("a directory");
    let (mut store, world) = open(data.path(), |options| options);
    for key in 0..40 {
        let blob = world.text.put(&mut store, &vec![key; 500_000]).expect("memory");
        world.blobs.insert(&mut store, u64::from(key), blob).expect("memory");
    }
    let context = context(Arc::new(store.view().expect("a view")), 1);
    let batches = ask(&context, "select value from blobs").expect("an answer");
    let rows: Vec<usize> = batches.iter().map(RecordBatch::num_rows).collect();
    assert_eq!((rows.iter().sum::<usize>(), rows.len()), (40, 2), "{rows:?}");
    let values = batches.iter().flat_map(|it| it.column(0).as_binary::<i32>().iter().flatten());
    assert_eq!(values.map(<[u8]>::len).sum::<usize>(), 20_000_000);
}

#[test]
fn the_guide_shows_what_the_documentation_runs() {
    let guide = include_str!("../../../docs/embed/state.md");
    let (_, rest) = guide.split_once("```rust,ignore\n").expect("an example");
    let (shown, _) = rest.split_once("```").expect("its end");
    let run = include_str!("../src/lib.rs");
    for line in shown.lines() {
        assert!(run.contains(&format!("//! {line}\n").replace("! \n", "!\n")), "{line}");
    }
}

#[test]
fn words_of_another_root_are_refused() {
    #[derive(Clone, Copy, State)]
    struct Other {
        _cells: Column<u64, 3>,
    }
    let data = tempfile::tempdir().expect("a directory");
    let (mut store, _) = open(data.path(), |options| options);
    let view: Arc<dyn Words> = Arc::new(store.view().expect("a view"));
    let refused = tables::<Other>(&view).expect_err("another root").to_string();
    assert!(refused.contains("convert it"), "{refused}");
}
