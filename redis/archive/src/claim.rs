//! Claims: which data directory may put manifests below a prefix.
//!
//! - Claims are numbered, and each is put once. The newest counts: its run alone puts manifests,
//!   and looks for a newer claim before each.
//! - A data directory returns if it has noted the newest claim as its own. A copy of it that
//!   started in between has put a later claim, so that one of the two is refused.
//! - A claim is noted before it is put, beside the one before it: after a crash the directory has
//!   noted the newest one in any case.

use serde::{Deserialize, Serialize};

use crate::error::ArchiveError;
use crate::manifest::{MANIFESTS, Manifest, OBJECTS, now_ms};
use crate::mutant::{Mutant, Mutation};
use crate::owner::Owner;
use crate::remote::{Created, Remote};
use crate::sealed::{self, FORMAT, Unsealed, VERSION};

const CLAIMS: &str = "claims";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    format: String,
    version: u32,
    pub(crate) number: u64,
    owner: String,
    run: String,
    at_ms: u64,
}

fn name(number: u64) -> String {
    format!("{CLAIMS}/{number:010}")
}

fn parse_name(name: &str) -> Option<u64> {
    let number = name.strip_prefix(CLAIMS)?.strip_prefix('/')?.parse().ok()?;
    (self::name(number) == name).then_some(number)
}

/// The number of the newest claim.
pub(crate) async fn newest(remote: &Remote) -> Result<u64, ArchiveError> {
    let names = remote.list(CLAIMS).await?;
    let Some(name) = names.last() else { return Ok(0) };
    parse_name(name).ok_or_else(|| {
        remote.unusable(name, Unsealed::Foreign("its name is of no claim".to_owned()))
    })
}

async fn read(remote: &Remote, number: u64) -> Result<Claim, ArchiveError> {
    let name = name(number);
    let bytes = remote.get(&name).await?;
    sealed::unseal(&bytes).map_err(|problem| remote.unusable(&name, problem))
}

/// Claims the prefix for this run, and puts its first manifest, which says what is there.
pub(crate) async fn take(
    remote: &Remote,
    owner: &mut Owner,
    take_over: bool,
) -> Result<Manifest, ArchiveError> {
    let mutation = Mutation::current();
    let number = loop {
        let newest = newest(remote).await?;
        if newest > 0 {
            let claim = read(remote, newest).await?;
            let is_own = owner.has_noted(newest, &claim.run);
            if !is_own && !take_over && !mutation.is(Mutant::ClaimTaken) {
                return Err(ArchiveError::Claimed {
                    url: remote.url.clone(),
                    claim: name(newest),
                    run: claim.run,
                    at_ms: claim.at_ms,
                });
            }
        }
        if put(remote, owner, newest + 1).await? {
            break newest + 1;
        }
        // Another was faster; whose claim that is decides.
    };
    let before = match remote.newest().await {
        // The owner has said that what is there may go out of reach. It is not deleted.
        Err(ArchiveError::Unusable { .. }) if take_over => None,
        before => before?,
    };
    let sweeps = before.is_some();
    let first = Manifest::first(number, &owner.id, &owner.run, before);
    put_manifest(remote, &first).await?;
    if sweeps {
        sweep(remote, &first).await?;
    }
    Ok(first)
}

/// Puts a claim; false if another has its number.
async fn put(remote: &Remote, owner: &mut Owner, number: u64) -> Result<bool, ArchiveError> {
    owner.note(number)?;
    let claim = Claim {
        format: FORMAT.to_owned(),
        version: VERSION,
        number,
        owner: owner.id.clone(),
        run: owner.run.clone(),
        at_ms: now_ms(),
    };
    let text = sealed::seal(&claim);
    if remote.create(&name(number), &text).await? == Created::Existed
        && read(remote, number).await?.run != owner.run
    {
        return Ok(false);
    }
    // A store may accept what it does not understand.
    match remote.create(&name(number), &text).await? {
        Created::Existed => Ok(true),
        Created::New => Err(ArchiveError::NotConditional { url: remote.url.clone() }),
    }
}

/// Puts a manifest, unless a later claim exists.
pub(crate) async fn put_manifest(remote: &Remote, manifest: &Manifest) -> Result<(), ArchiveError> {
    let newest = newest(remote).await?;
    if newest != manifest.claim && !Mutation::current().is(Mutant::ClaimIgnored) {
        let claim = read(remote, newest).await?;
        return Err(ArchiveError::Claimed {
            url: remote.url.clone(),
            claim: name(newest),
            run: claim.run,
            at_ms: claim.at_ms,
        });
    }
    let (name, text) = (Manifest::name(manifest.claim, manifest.number), manifest.text());
    if remote.create(&name, &text).await? == Created::Existed {
        let found = remote.get(&name).await?;
        if found != text.as_bytes() {
            let problem = Unsealed::Foreign("another program put it under our claim".to_owned());
            return Err(remote.unusable(&name, problem));
        }
    }
    Ok(())
}

/// Removes what earlier runs have left: objects that no manifest names, older claims and manifests.
async fn sweep(remote: &Remote, manifest: &Manifest) -> Result<(), ArchiveError> {
    remote.sweep_folder()?;
    let mut gone = remote.list(OBJECTS).await?;
    gone.retain(|name| !manifest.knows(name));
    let claims = remote.list(CLAIMS).await?;
    gone.extend(claims.into_iter().filter(|it| *it < name(manifest.claim)));
    let manifests = remote.list(MANIFESTS).await?;
    let own = Manifest::name(manifest.claim, manifest.number);
    gone.extend(manifests.into_iter().filter(|it| *it < own).rev().skip(KEPT_MANIFESTS));
    remote.remove(&gone).await
}

/// Manifests that stay behind the newest one, for people.
pub(crate) const KEPT_MANIFESTS: usize = 10;
