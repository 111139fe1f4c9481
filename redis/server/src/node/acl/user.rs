//! A user: passwords and selectors.

use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use super::catalog::Catalog;
use super::passwords::{Hash, Passwords};
use super::selector::{Denied, SYNTAX, Selector, Touched};

/// See the head of this file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    /// Its name.
    pub(crate) name: Vec<u8>,
    /// Whether the user may log in.
    pub(crate) enabled: bool,
    /// Whether any password is right.
    pub(crate) nopass: bool,
    /// Kept for ACL LIST: RESTORE always checks its payload.
    sanitize: Option<bool>,
    passwords: Passwords,
    /// The user's own rules, then its selectors in brackets.
    selectors: Vec<Selector>,
    /// Whether no request needs a check.
    pub(crate) unlimited: bool,
}

impl User {
    /// A user without rights, except for channels as `acl-pubsub-default` says.
    pub(super) fn new(name: &[u8], catalog: &Catalog) -> Self {
        Self {
            name: name.to_vec(),
            enabled: false,
            nopass: false,
            sanitize: None,
            passwords: Passwords::default(),
            selectors: vec![Selector::nothing(catalog)],
            unlimited: false,
        }
    }

    /// Applies one rule; a refused one changes nothing.
    pub(super) fn apply(&mut self, rule: &[u8], catalog: &Catalog) -> Result<(), &'static str> {
        self.apply_rule(rule, catalog)?;
        self.unlimited = self.selectors.first().is_some_and(Selector::is_everything);
        Ok(())
    }

    fn apply_rule(&mut self, rule: &[u8], catalog: &Catalog) -> Result<(), &'static str> {
        match rule.to_ascii_lowercase().as_slice() {
            b"on" => self.enabled = true,
            b"off" => self.enabled = false,
            b"sanitize-payload" => self.sanitize = Some(true),
            b"skip-sanitize-payload" => self.sanitize = Some(false),
            b"nopass" => {
                self.nopass = true;
                self.passwords = Passwords::default();
            }
            b"resetpass" => {
                self.nopass = false;
                self.passwords = Passwords::default();
            }
            b"clearselectors" => self.selectors.truncate(1),
            b"reset" => {
                *self = Self { sanitize: Some(true), ..Self::new(&self.name, catalog) };
            }
            _ => return self.apply_word(rule, catalog),
        }
        Ok(())
    }

    fn apply_word(&mut self, rule: &[u8], catalog: &Catalog) -> Result<(), &'static str> {
        const NONE: &str = "The password you are trying to remove from the user does not exist";
        match rule {
            [b'>', password @ ..] => self.add_password(digest(password)),
            [b'#', hash @ ..] => self.add_password(parse_hash(hash)?),
            [sign @ (b'<' | b'!'), given @ ..] => {
                let hash = if *sign == b'<' { digest(given) } else { parse_hash(given)? };
                self.passwords.remove(&hash).ok_or(NONE)?;
            }
            [b'(', inside @ .., b')'] => {
                let mut selector = Selector::nothing(catalog);
                let rules = inside.split(u8::is_ascii_whitespace).filter(|rule| !rule.is_empty());
                for rule in rules {
                    selector.apply(rule, catalog)?;
                }
                self.selectors.push(selector);
            }
            _ => return self.selectors.first_mut().ok_or(SYNTAX)?.apply(rule, catalog),
        }
        Ok(())
    }

    fn add_password(&mut self, hash: Hash) {
        self.passwords.add(hash);
        self.nopass = false;
    }

    /// Whether a password is right, in a time that reveals nothing of it.
    pub(super) fn accepts(&self, password: &[u8]) -> bool {
        self.nopass | bool::from(compare(self.passwords.iter(), password))
    }

    /// Whether a request may run.
    pub(crate) fn check(&self, touched: &Touched<'_>) -> Result<(), Denied> {
        let mut reason = Denied::Command;
        for selector in &self.selectors {
            match selector.check(touched) {
                Ok(()) => return Ok(()),
                Err(denied) => reason = reason.max(denied),
            }
        }
        Err(reason)
    }

    /// Whether the command may read keys that are not among its arguments.
    pub(crate) fn reads_all_keys(&self, touched: &Touched<'_>) -> bool {
        self.selectors.iter().any(|own| own.check(touched).is_ok() && own.reads_all_keys())
    }

    /// Whether a channel, or all channels of a pattern, may be listened to.
    pub(crate) fn allows_channel(&self, channel: &[u8], pattern: bool) -> bool {
        self.selectors.iter().any(|own| own.allows_channel(channel, pattern))
    }

    /// The user's own rules, then its selectors.
    pub(crate) fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// Rules beside passwords, commands, keys and channels.
    pub(crate) fn flags(&self) -> Vec<&'static str> {
        let mut flags = vec![if self.enabled { "on" } else { "off" }];
        if self.nopass {
            flags.push("nopass");
        }
        match self.sanitize {
            Some(true) => flags.push("sanitize-payload"),
            Some(false) => flags.push("skip-sanitize-payload"),
            None => {}
        }
        flags
    }

    /// The digests of the passwords in hexadecimal.
    pub(crate) fn hashes(&self) -> Vec<String> {
        let hex = |hash: &Hash| hash.iter().map(|byte| format!("{byte:02x}")).collect();
        self.passwords.iter().map(hex).collect()
    }

    /// The rules that make the user, behind its name.
    pub(crate) fn show(&self, catalog: &Catalog) -> Vec<u8> {
        let mut parts: Vec<Vec<u8>> = self.flags().into_iter().map(Into::into).collect();
        parts.extend(self.hashes().into_iter().map(|hash| format!("#{hash}").into_bytes()));
        for (place, selector) in self.selectors.iter().enumerate() {
            let shown = selector.show(catalog);
            parts.push(if place == 0 { shown } else { [b"(", &shown[..], b")"].concat() });
        }
        parts.join(&b' ')
    }
}

/// Whether the given password is one of the known ones. All digests are compared whole, so the time
/// reveals neither where they differ nor which one matches.
pub(super) fn compare<'k>(known: impl IntoIterator<Item = &'k Hash>, given: &[u8]) -> Choice {
    let given = digest(given);
    let same = known.into_iter().map(|known| known[..].ct_eq(&given[..]));
    same.fold(Choice::from(0), |right, same| right | same)
}

fn digest(password: &[u8]) -> Hash {
    Sha256::digest(password).into()
}

fn parse_hash(hex: &[u8]) -> Result<Hash, &'static str> {
    const WRONG: &str = "The password hash must be exactly 64 characters and contain only \
        lowercase hexadecimal characters";
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        _ => Err(WRONG),
    };
    let (pairs, rest) = hex.as_chunks::<2>();
    if pairs.len() != 32 || !rest.is_empty() {
        return Err(WRONG);
    }
    let mut hash = [0; 32];
    for (byte, [high, low]) in hash.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_right_if_its_whole_digest_is_known() {
        let right = digest(b"secret");
        let mut known = vec![digest(b"other"), digest(b""), right];
        for place in 0..known.len() {
            known.rotate_left(1);
            assert!(bool::from(compare(&known, b"secret")), "{place}");
        }
        for given in [&b"secre"[..], b"secret\0", b"Secret", b"secretsecret", &right] {
            assert!(!bool::from(compare(&known, given)));
        }
        // One bit of the digest is enough, wherever it is.
        for bit in 0..256 {
            let mut near = right;
            near[bit / 8] ^= 1 << (bit % 8);
            assert!(!bool::from(compare(&[near], b"secret")), "bit {bit}");
        }
        assert!(!bool::from(compare(&[], b"secret")));
    }
}
