//! Passwords in requests: neither the slow log nor MONITOR shows them.

/// The arguments of a request, without the passwords in it.
pub(crate) fn redacted<'a>(args: &[&'a [u8]]) -> Vec<&'a [u8]> {
    let named =
        |at: usize, name: &[u8]| args.get(at).is_some_and(|arg| arg.eq_ignore_ascii_case(name));
    let auth = args.iter().skip(2).position(|arg| arg.eq_ignore_ascii_case(b"auth"));
    let credentials = auth.map_or(0..0, |at| at + 3..at + 5);
    let moving = migration_secrets(args);
    let setting = |at: usize| SECRETS.iter().any(|secret| named(at, secret));
    let is_secret = |at: usize| match at {
        0 => false,
        _ if named(0, b"auth") => true,
        _ if named(0, b"hello") => credentials.contains(&at),
        _ if named(0, b"migrate") => moving.contains(&at),
        2.. if named(0, b"acl") => named(1, b"setuser"),
        3.. if named(0, b"config") => named(1, b"set") && at % 2 == 1 && setting(at - 1),
        _ => false,
    };
    let shown = |(at, arg): (usize, &&'a [u8])| if is_secret(at) { REDACTED } else { *arg };
    args.iter().enumerate().map(shown).collect()
}

/// The positions of the words behind AUTH and AUTH2 of a MIGRATE.
fn migration_secrets(args: &[&[u8]]) -> std::ops::Range<usize> {
    let options = args.iter().enumerate().skip(6);
    let said = options.map(|(at, arg)| (at, arg.to_ascii_lowercase()));
    let mut before_keys = said.take_while(|(_, word)| word != b"keys");
    let found = before_keys.find(|(_, word)| word == b"auth" || word == b"auth2");
    found.map_or(0..0, |(at, word)| at + 1..at + 2 + usize::from(word == b"auth2"))
}

const REDACTED: &[u8] = b"(redacted)";
/// Settings whose values are passwords.
const SECRETS: [&[u8]; 4] =
    [b"requirepass", b"masterauth", b"tls-key-file-pass", b"tls-client-key-file-pass"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        let shown = |request: &str| {
            let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            String::from_utf8(redacted(&args).join(&b' ')).expect("text")
        };
        for (request, expected) in [
            ("AUTH p", "AUTH (redacted)"),
            ("auth u p", "auth (redacted) (redacted)"),
            ("HELLO 3 AUTH u p SETNAME m", "HELLO 3 AUTH (redacted) (redacted) SETNAME m"),
            ("CONFIG SET save x requirepass p", "CONFIG SET save x requirepass (redacted)"),
            ("MIGRATE h 1 k 0 1 AUTH p", "MIGRATE h 1 k 0 1 AUTH (redacted)"),
            (
                "MIGRATE h 1 \"\" 0 1 COPY auth2 u p KEYS auth x",
                "MIGRATE h 1 \"\" 0 1 COPY auth2 (redacted) (redacted) KEYS auth x",
            ),
            ("ACL SETUSER u >p", "ACL SETUSER (redacted) (redacted)"),
            ("SET auth p", "SET auth p"),
        ] {
            assert_eq!(shown(request), expected);
        }
    }
}
