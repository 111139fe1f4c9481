//! What a request of a primary's stream means for the one server that takes all primaries' data.

/// See the head of this file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning<'a> {
    /// It concerns the link or the cluster alone.
    Nothing,
    /// The primary wants a report.
    Report,
    /// The database of what follows.
    Select(u64),
    /// A transaction begins.
    Begin,
    /// The transaction ends.
    End,
    /// The primary has dropped all its keys; the target holds those of others, too.
    Flush,
    /// A slot is being moved.
    Moving,
    /// A library of functions; each primary has it.
    Library(&'a [u8]),
    /// A library goes.
    DeleteLibrary(&'a [u8]),
    /// All libraries go.
    DropLibraries,
    /// It is to be run as it is.
    Run,
}

/// The meaning of a request.
pub(super) fn meaning<'a>(args: &[&'a [u8]]) -> Meaning<'a> {
    let Some(name) = args.first().map(|name| name.to_ascii_lowercase()) else {
        return Meaning::Nothing;
    };
    let word = |at: usize| args.get(at).map(|it| it.to_ascii_lowercase()).unwrap_or_default();
    match name.as_slice() {
        b"ping" => Meaning::Nothing,
        b"replconf" if word(1) == b"getack" => Meaning::Report,
        b"replconf" => Meaning::Nothing,
        b"select" => {
            let number = args.get(1).and_then(|text| std::str::from_utf8(text).ok());
            number.and_then(|it| it.parse().ok()).map_or(Meaning::Run, Meaning::Select)
        }
        b"multi" => Meaning::Begin,
        b"exec" => Meaning::End,
        b"flushall" | b"flushdb" => Meaning::Flush,
        b"restore-asking" | b"cluster" => Meaning::Moving,
        b"function" => match (word(1).as_slice(), args) {
            (b"load", [_, _, .., source]) => Meaning::Library(source),
            (b"delete", [_, _, library]) => Meaning::DeleteLibrary(library),
            (b"flush", _) => Meaning::DropLibraries,
            _ => Meaning::Run,
        },
        _ => Meaning::Run,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_concerns_more_than_the_keys_of_a_primary_is_told_apart() {
        let found = |line: &'static str| {
            meaning(&line.split_whitespace().map(str::as_bytes).collect::<Vec<_>>())
        };
        assert_eq!(found(""), Meaning::Nothing);
        assert_eq!(found("ping"), Meaning::Nothing);
        assert_eq!(found("REPLCONF GETACK *"), Meaning::Report);
        assert_eq!(found("replconf ack 1"), Meaning::Nothing);
        assert_eq!(found("SELECT 3"), Meaning::Select(3));
        assert_eq!(found("SELECT x"), Meaning::Run);
        assert_eq!([found("MULTI"), found("EXEC")], [Meaning::Begin, Meaning::End]);
        assert_eq!([found("FLUSHALL"), found("flushdb async")], [Meaning::Flush, Meaning::Flush]);
        assert_eq!(found("RESTORE-ASKING k 0 x"), Meaning::Moving);
        assert_eq!(found("CLUSTER SYNCSLOTS x"), Meaning::Moving);
        assert_eq!(found("FUNCTION LOAD REPLACE s"), Meaning::Library(b"s"));
        assert_eq!(found("function load s"), Meaning::Library(b"s"));
        assert_eq!(found("FUNCTION DELETE l"), Meaning::DeleteLibrary(b"l"));
        assert_eq!(found("FUNCTION FLUSH"), Meaning::DropLibraries);
        assert_eq!(found("SET k v"), Meaning::Run);
    }
}
