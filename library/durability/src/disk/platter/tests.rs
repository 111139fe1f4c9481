//! What a loss of power may leave, by hand-made histories.

use super::*;

/// Every content that the file `f` may have after a loss of power; `None` if it may be gone.
fn possible(platter: &Platter) -> HashSet<Option<Vec<u8>>> {
    let (pieces, earlier) = platter.in_doubt(usize::MAX);
    assert!(earlier.is_empty());
    let all = (0..1u32 << pieces.len()).map(|mask| {
        let keep = |number| mask >> pieces.binary_search(&number).expect("in doubt") & 1 == 1;
        platter.lose_power(keep).get("f").map(|bytes| bytes.to_vec())
    });
    all.collect()
}

fn platter(changes: &[Change]) -> Platter {
    let mut platter = Platter::default();
    changes.iter().for_each(|change| platter.apply(change));
    platter
}

fn set<const N: usize>(contents: [Option<&[u8]>; N]) -> HashSet<Option<Vec<u8>>> {
    contents.into_iter().map(|content| content.map(<[u8]>::to_vec)).collect()
}

#[test]
fn bytes_length_and_name_are_durable_by_their_own_sync_alone() {
    use Change::{Create, Sync, SyncNames, Write};
    let (create, write) = (Create("f".into()), Write(0, 0, vec![7]));
    let any = set([None, Some(&[]), Some(&[0]), Some(&[7])]);
    assert_eq!(possible(&platter(&[create.clone(), write.clone()])), any);
    let synced = [create.clone(), write.clone(), Sync(0)];
    assert_eq!(possible(&platter(&synced)), set([None, Some(&[7])]));
    let named = [create.clone(), write.clone(), SyncNames(String::new())];
    assert_eq!(possible(&platter(&named)), set([Some(&[]), Some(&[0]), Some(&[7])]));
    let both = [create, write, SyncNames(String::new()), Sync(0)];
    assert_eq!(possible(&platter(&both)), set([Some(&[7])]));
}

#[test]
fn writes_are_torn_at_sectors_and_reordered() {
    use Change::{Create, Sync, SyncNames, Write};
    let zeros = Write(0, 0, vec![0; 1024]);
    let base = [Create("f".into()), zeros, Sync(0), SyncNames(String::new())];
    let mut platter = platter(&base);
    platter.apply(&Write(0, 0, vec![1; 1024]));
    platter.apply(&Write(0, 0, vec![2; 1024]));
    let halves: HashSet<(u8, u8)> = possible(&platter)
        .into_iter()
        .map(|bytes| {
            let (left, right) = bytes.as_ref().expect("named").split_at(SECTOR_BYTES);
            assert!(left.iter().all(|&byte| byte == left[0]), "a sector is whole");
            assert!(right.iter().all(|&byte| byte == right[0]), "a sector is whole");
            (left[0], right[0])
        })
        .collect();
    assert_eq!(halves.len(), 9, "each half is 0, 1 or 2: {halves:?}");
    assert_eq!(platter.in_doubt(1).0.len(), 2);
    assert_eq!(platter.in_doubt(1).1.len(), 2);
}

#[test]
fn no_sync_makes_up_for_a_failed_one() {
    use Change::{Create, Sync, SyncFailed, SyncNames, Write};
    let write = Write(0, 0, vec![7]);
    let failed =
        [Create("f".into()), SyncNames(String::new()), write.clone(), SyncFailed(0), Sync(0)];
    let mut platter = platter(&failed);
    assert_eq!(platter.read(0), [7], "the page cache shows it");
    assert_eq!(possible(&platter), set([Some(&[0]), Some(&[7])]));
    platter.apply(&Write(0, 0, vec![8]));
    platter.apply(&Sync(0));
    assert_eq!(possible(&platter), set([Some(&[8])]), "written again");
}

#[test]
fn a_rename_is_whole_or_did_not_happen() {
    use Change::{Create, Rename, Sync, SyncNames, Write};
    let first = [Create("f".into()), Write(0, 0, vec![1]), Sync(0)];
    let second = [Create("g".into()), Write(1, 0, vec![2]), Sync(1), SyncNames(String::new())];
    let mut platter = platter(&[&first[..], &second[..]].concat());
    platter.apply(&Rename("g".into(), "f".into()));
    assert_eq!(possible(&platter), set([Some(&[1]), Some(&[2])]));
    assert_eq!(platter.names(), ["f"]);
}
