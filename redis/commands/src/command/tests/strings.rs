//! Strings and counters beside vectors of bytes and wide integers.

use stillframe_peers::reply::Reply;
use stillframe_peers::{Random, rounds};

use super::{ask, call, edge};
use crate::harness::Harness;

/// The bytes that GETRANGE selects, as Redis's documentation says it.
fn range(text: &[u8], start: i64, end: i64) -> Vec<u8> {
    let length = text.len() as i128;
    let from_end = |at: i64| if at < 0 { (i128::from(at) + length).max(0) } else { at.into() };
    if start < 0 && end < 0 && start > end {
        return Vec::new();
    }
    let chosen = (0..length).filter(|&at| from_end(start) <= at && at <= from_end(end));
    chosen.map(|at| text[at as usize]).collect()
}

#[test]
fn parts_of_strings_are_those_of_bytes() {
    let mut random = Random::new("parts_of_strings_are_those_of_bytes");
    let mut harness = Harness::new();
    let mut model: Vec<u8> = Vec::new();
    for _ in 0..rounds(6_000, 500_000) {
        let length = random.below(6);
        let piece = random.pick(&[random_digits, random_bytes])(&mut random, length);
        match random.below(6) {
            0 => {
                model.clone_from(&piece);
                call(&mut harness, &[b"SET", b"k", &piece]);
            }
            1 => {
                model.extend_from_slice(&piece);
                let length = call(&mut harness, &[b"APPEND", b"k", &piece]).int();
                assert_eq!(length, model.len() as i64);
            }
            2 => {
                let at = random.below(30);
                if !piece.is_empty() {
                    model.resize(model.len().max(at + piece.len()), 0);
                    model[at..at + piece.len()].copy_from_slice(&piece);
                }
                let at = at.to_string();
                let length = call(&mut harness, &[b"SETRANGE", b"k", at.as_bytes(), &piece]).int();
                assert_eq!(length, model.len() as i64);
            }
            _ => {
                let (start, end) = (edge(&mut random), edge(&mut random));
                let found = ask(&mut harness, &format!("GETRANGE k {start} {end}"));
                let expected = Reply::Text(range(&model, start, end));
                assert_eq!(found, expected, "{start} {end} of {}", model.escape_ascii());
            }
        }
        assert_eq!(ask(&mut harness, "STRLEN k").int(), model.len() as i64);
        if model.len() > 60 {
            model.clear();
            ask(&mut harness, "DEL k");
        }
    }
}

fn random_digits(random: &mut Random, length: usize) -> Vec<u8> {
    (0..length).map(|_| b'0' + random.below(10) as u8).collect()
}

fn random_bytes(random: &mut Random, length: usize) -> Vec<u8> {
    random.bytes(length)
}

#[test]
fn counters_count_as_wide_integers_or_refuse() {
    let mut random = Random::new("counters_count_as_wide_integers_or_refuse");
    let mut harness = Harness::new();
    ask(&mut harness, "SET k 0"); // a first request that is refused makes no key
    let mut model = 0_i128;
    for _ in 0..rounds(10_000, 1_000_000) {
        let by = edge(&mut random);
        let (line, sum, refusal) = match random.below(4) {
            0 => (format!("SET k {by}"), by.into(), ""),
            1 => (format!("INCRBY k {by}"), model + i128::from(by), "increment or decrement"),
            2 if by == i64::MIN => (format!("DECRBY k {by}"), i128::MAX, "decrement"),
            2 => (format!("DECRBY k {by}"), model - i128::from(by), "increment or decrement"),
            _ => ("INCR k".to_owned(), model + 1, "increment or decrement"),
        };
        let reply = ask(&mut harness, &line);
        if i64::try_from(sum).is_ok() {
            model = sum;
            let is_set = line.starts_with("SET");
            assert!(is_set || i128::from(reply.int()) == model, "{line}: {reply:?}");
        } else {
            assert_eq!(reply, Reply::Error(format!("ERR {refusal} would overflow")), "{line}");
        }
        assert_eq!(ask(&mut harness, "GET k").text(), model.to_string(), "{line}");
    }
}

/// Both ways to count a field and a string agree.
#[test]
fn fields_count_as_strings_do() {
    let mut random = Random::new("fields_count_as_strings_do");
    let mut harness = Harness::new();
    for _ in 0..rounds(3_000, 200_000) {
        let by = match random.below(3) {
            0 => format!("{}.{}", random.below(100) as i64 - 50, random.below(1000)),
            _ => random.pick(&["0.1", "-0.3", "1e17", "-1e-7", "3.0", "1e300", "7"]).to_owned(),
        };
        let reset = random.below(20) == 0;
        if reset {
            harness.all(&["SET s 0", "HSET h f 0"]);
        }
        let string = ask(&mut harness, &format!("INCRBYFLOAT s {by}"));
        assert_eq!(string, ask(&mut harness, &format!("HINCRBYFLOAT h f {by}")), "{by}");
        assert_eq!(ask(&mut harness, "GET s"), ask(&mut harness, "HGET h f"), "{by}");
    }
}

/// Thousandths below 16 and their sums, which 17 digits behind the point show exactly.
#[test]
fn sums_of_decimals_are_decimals() {
    let mut random = Random::new("sums_of_decimals_are_decimals");
    let mut harness = Harness::new();
    let shown = |thousandths: i64| {
        let (sign, size) = (if thousandths < 0 { "-" } else { "" }, thousandths.abs());
        let text = format!("{sign}{}.{:03}", size / 1000, size % 1000);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let mut sum = 0;
    harness.all(&["SET k 0"]);
    for _ in 0..rounds(5_000, 500_000) {
        let by = random.below(16_000) as i64 - 8_000 - sum;
        sum += by;
        let text = if random.below(2) == 0 { shown(by) } else { format!("{by}e-3") };
        let reply = ask(&mut harness, &format!("INCRBYFLOAT k {text}"));
        assert_eq!(reply.text(), shown(sum), "after {text}");
    }
}

/// The length of a longest common subsequence, by its definition.
fn common(a: &[u8], b: &[u8]) -> usize {
    match (a, b) {
        ([first, a @ ..], [other, b @ ..]) if first == other => 1 + common(a, b),
        ([_, shorter_a @ ..], [_, shorter_b @ ..]) => {
            common(shorter_a, b).max(common(a, shorter_b))
        }
        _ => 0,
    }
}

#[test]
fn a_longest_common_subsequence_is_common_and_longest() {
    let mut random = Random::new("a_longest_common_subsequence_is_common_and_longest");
    let mut harness = Harness::new();
    let is_within = |part: &[u8], whole: &[u8]| {
        let mut rest = whole.iter();
        part.iter().all(|byte| rest.any(|other| other == byte))
    };
    for _ in 0..rounds(1_000, 50_000) {
        let texts = [(); 2].map(|()| {
            (0..random.below(9)).map(|_| b'a' + random.below(3) as u8).collect::<Vec<u8>>()
        });
        call(&mut harness, &[b"MSET", b"a", &texts[0], b"b", &texts[1]]);
        let expected = common(&texts[0], &texts[1]);
        assert_eq!(ask(&mut harness, "LCS a b LEN").int(), expected as i64, "{texts:?}");
        let found = ask(&mut harness, "LCS a b");
        let found = found.bytes().expect("a text");
        assert_eq!(found.len(), expected, "{texts:?}");
        assert!(texts.iter().all(|text| is_within(found, text)), "{texts:?}: {found:?}");
    }
}
