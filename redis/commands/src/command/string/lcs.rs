//! LCS: the longest common subsequence of two strings, by the classic table of prefix lengths.

use stillframe_keyspace::{Entry, IntText, Type};
use stillframe_resp::parse_integer;

use crate::context::Context;
use crate::errors::{NOT_AN_INTEGER, Refusal, SYNTAX};
use crate::table::Table;

/// Adds the commands of this module.
pub(crate) fn register<S>(table: &mut Table<S>) {
    table.add("lcs", lcs);
}

/// What LCS is asked to answer.
#[derive(Default)]
struct Options {
    length_only: bool,
    runs: bool,
    run_length: bool,
    run_length_min: i64,
}

impl Options {
    fn parse(args: &[&[u8]]) -> Result<Self, Refusal> {
        let mut options = Self::default();
        let mut rest = args;
        while let [option, after @ ..] = rest {
            rest = after;
            match (option.to_ascii_uppercase().as_slice(), rest) {
                (b"LEN", _) => options.length_only = true,
                (b"IDX", _) => options.runs = true,
                (b"WITHMATCHLEN", _) => options.run_length = true,
                (b"MINMATCHLEN", [number, after @ ..]) => {
                    rest = after;
                    options.run_length_min = parse_integer(number).ok_or(NOT_AN_INTEGER)?;
                }
                _ => return Err(SYNTAX),
            }
        }
        if options.length_only && options.runs {
            return Err("ERR If you want both the length and indexes, please just use IDX.".into());
        }
        Ok(options)
    }
}

/// `LCS key1 key2 [LEN] [IDX] [MINMATCHLEN length] [WITHMATCHLEN]`
fn lcs(ctx: &mut Context<'_>, args: &[&[u8]]) -> Result<(), Refusal> {
    let [a, b] = [args[1], args[2]].map(|key| {
        ctx.read(key, |_, entry| {
            let mut text = IntText::default();
            let value = entry.map(Entry::value);
            let is_text = value.is_none_or(|value| value.kind() == Type::String);
            is_text.then(|| value.map_or_else(Vec::new, |value| value.to_bytes(&mut text).to_vec()))
        })
    });
    let (Some(a), Some(b)) = (a, b) else {
        return Err("ERR The specified keys must contain string values".into());
    };
    let options = Options::parse(&args[3..])?;
    if PrefixLengths::bytes(&a, &b).is_none_or(|bytes| bytes > ctx.string_bytes_max()) {
        return Err(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len".into()
        );
    }
    let out = &mut ctx.out;
    if options.length_only {
        out.integer(length(&a, &b).into());
        return Ok(());
    }
    let lengths = PrefixLengths::new(&a, &b);
    let length = i64::from(lengths.at(a.len(), b.len()));
    let runs = lengths.runs(&a, &b);
    if !options.runs {
        let bytes = runs.iter().rev().flat_map(|run| &a[run.a..run.a + run.length]);
        out.bulk(bytes.copied().collect::<Vec<u8>>());
        return Ok(());
    }
    out.map(2);
    out.bulk("matches");
    let long: Vec<&Run> =
        runs.iter().filter(|run| run.length as i64 >= options.run_length_min).collect();
    out.array(long.len());
    for run in long {
        out.array(2 + usize::from(options.run_length));
        for start in [run.a, run.b] {
            out.array(2);
            out.integer(start as i64);
            out.integer((start + run.length - 1) as i64);
        }
        if options.run_length {
            out.integer(run.length as i64);
        }
    }
    out.bulk("len");
    out.integer(length);
    Ok(())
}

/// The length alone: one row of the table is enough.
fn length(a: &[u8], b: &[u8]) -> u32 {
    let mut row = vec![0_u32; b.len() + 1];
    for a_byte in a {
        let mut diagonal = 0;
        for (j, b_byte) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = if a_byte == b_byte { diagonal + 1 } else { above.max(row[j]) };
            diagonal = above;
        }
    }
    row[b.len()]
}

/// Lengths of the longest common subsequence of all pairs of prefixes.
struct PrefixLengths {
    columns: usize,
    cells: Vec<u32>,
}

/// Bytes that both strings have in common without a gap.
struct Run {
    /// Where it starts in the first string.
    a: usize,
    /// Where it starts in the second.
    b: usize,
    length: usize,
}

impl PrefixLengths {
    /// Bytes that the table takes, if a number can hold them.
    fn bytes(a: &[u8], b: &[u8]) -> Option<usize> {
        (a.len() + 1).checked_mul(b.len() + 1)?.checked_mul(size_of::<u32>())
    }

    /// The table, which takes [`bytes`](Self::bytes).
    fn new(a: &[u8], b: &[u8]) -> Self {
        let columns = b.len() + 1;
        let mut table = Self { columns, cells: vec![0; (a.len() + 1) * columns] };
        for (i, a_byte) in a.iter().enumerate() {
            for (j, b_byte) in b.iter().enumerate() {
                table.cells[(i + 1) * columns + j + 1] = if a_byte == b_byte {
                    table.at(i, j) + 1
                } else {
                    table.at(i, j + 1).max(table.at(i + 1, j))
                };
            }
        }
        table
    }

    /// The length for the first `i` bytes of one string and the first `j` of the other.
    fn at(&self, i: usize, j: usize) -> u32 {
        self.cells[i * self.columns + j]
    }

    /// The runs of one longest subsequence, the last first.
    fn runs(&self, a: &[u8], b: &[u8]) -> Vec<Run> {
        let (mut i, mut j) = (a.len(), b.len());
        let (mut runs, mut in_run) = (Vec::<Run>::new(), false);
        while i > 0 && j > 0 {
            if a[i - 1] == b[j - 1] {
                (i, j) = (i - 1, j - 1);
                match runs.last_mut().filter(|_| in_run) {
                    Some(run) => *run = Run { a: i, b: j, length: run.length + 1 },
                    None => runs.push(Run { a: i, b: j, length: 1 }),
                }
                in_run = true;
            } else {
                in_run = false;
                if self.at(i - 1, j) > self.at(i, j - 1) { i -= 1 } else { j -= 1 }
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_spell_a_longest_common_subsequence() {
        let cases = [
            ("ohmytext", "mynewtext", "mytext"),
            ("", "x", ""),
            ("same", "same", "same"),
            ("abc", "xyz", ""),
        ];
        for (a, b, common) in cases {
            let (a, b) = (a.as_bytes(), b.as_bytes());
            let table = PrefixLengths::new(a, b);
            let runs = table.runs(a, b);
            let spelt: Vec<u8> =
                runs.iter().rev().flat_map(|run| a[run.a..][..run.length].to_vec()).collect();
            assert_eq!(spelt, common.as_bytes());
            assert_eq!(table.at(a.len(), b.len()) as usize, common.len());
            assert_eq!(length(a, b) as usize, common.len());
            assert!(runs.iter().all(|run| a[run.a..][..run.length] == b[run.b..][..run.length]));
        }
        assert_eq!(PrefixLengths::bytes(b"abc", b"abc"), Some(64), "16 cells of 4 bytes");
    }
}
