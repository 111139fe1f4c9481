//! Scripts, as figures show them.

use super::InProcess;
use crate::Config;

fn ask(server: &mut InProcess, args: &[&[u8]]) -> String {
    String::from_utf8_lossy(server.run(args)).into_owned()
}

/// The number behind `name` and the signs between them.
fn number(text: &str, name: &str, between: &str) -> u64 {
    let (_, rest) = text.split_once(&format!("{name}{between}")).expect(name);
    let (digits, _) = rest.split_once("\r\n").expect("a line");
    digits.parse().expect("a number")
}

/// Bytes of scripts and of functions, and how many scripts there are.
fn figures(server: &mut InProcess) -> ([u64; 2], u64) {
    let info = ask(server, &[b"INFO", b"memory"]);
    let stats = ask(server, &[b"MEMORY", b"STATS"]);
    let names =
        [("used_memory_scripts_eval", "lua.caches"), ("used_memory_functions", "functions.caches")];
    let bytes = names.map(|(field, name)| {
        let bytes = number(&info, field, ":");
        assert_eq!(number(&stats, name, "\r\n:"), bytes, "{name}");
        bytes
    });
    (bytes, number(&info, "number_of_cached_scripts", ":"))
}

#[test]
fn info_and_memory_stats_agree_on_what_scripts_and_functions_take() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = Config { dir: folder.path().to_owned(), ..Config::default() };
    let mut server = InProcess::new(config).expect("a server");
    assert_eq!(figures(&mut server), ([0, 0], 0), "nothing is loaded yet");

    let source = [&b"return '"[..], &[b'x'; 5_000], b"'"].concat();
    let library = b"#!lua name=l\nredis.register_function('f', function() return 1 end)";
    ask(&mut server, &[b"SCRIPT", b"LOAD", &source]);
    ask(&mut server, &[b"FUNCTION", b"LOAD", library]);
    let ([of_scripts, of_functions], scripts) = figures(&mut server);
    assert!(of_scripts >= 5_000, "{of_scripts} bytes of scripts");
    assert!(of_functions >= library.len() as u64, "{of_functions} bytes of functions");
    assert_eq!(scripts, 1);

    ask(&mut server, &[b"SCRIPT", b"FLUSH"]);
    ask(&mut server, &[b"FUNCTION", b"FLUSH"]);
    assert_eq!(figures(&mut server), ([0, 0], 0));
    assert_eq!(number(&ask(&mut server, &[b"INFO", b"memory"]), "number_of_functions", ":"), 0);
}

#[test]
fn a_script_sees_the_figures_that_others_see() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = Config { dir: folder.path().to_owned(), ..Config::default() };
    let mut server = InProcess::new(config).expect("a server");
    let library = b"#!lua name=l\nredis.register_function('f', function() return \
                    redis.call('INFO', 'memory') end)";
    ask(&mut server, &[b"FUNCTION", b"LOAD", library]);
    ask(&mut server, &[b"SCRIPT", b"LOAD", b"return 1"]);
    let within = ask(&mut server, &[b"EVAL", b"return redis.call('INFO', 'memory')", b"0"]);
    let within_function = ask(&mut server, &[b"FCALL", b"f", b"0"]);
    let outside = ask(&mut server, &[b"INFO", b"memory"]);
    for name in [
        "number_of_cached_scripts",
        "number_of_functions",
        "used_memory_scripts_eval",
        "used_memory_functions",
        "used_memory_scripts",
    ] {
        let wanted = number(&outside, name, ":");
        assert!(wanted > 0, "{name}");
        assert_eq!(number(&within, name, ":"), wanted, "{name} in a script");
        assert_eq!(number(&within_function, name, ":"), wanted, "{name} in a function");
    }
    for name in ["used_memory_vm_eval", "used_memory_vm_functions"] {
        assert!(number(&within, name, ":") > 0, "{name} in a script");
        assert!(number(&within_function, name, ":") > 0, "{name} in a function");
    }
}

#[test]
fn sources_count_for_maxmemory() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = Config { dir: folder.path().to_owned(), ..Config::default() };
    let mut server = InProcess::new(config).expect("a server");
    let used =
        |server: &mut InProcess| number(&ask(server, &[b"INFO", b"memory"]), "used_memory", ":");
    let limit = used(&mut server) + 200_000;
    ask(&mut server, &[b"CONFIG", b"SET", b"maxmemory", limit.to_string().as_bytes()]);
    assert_eq!(ask(&mut server, &[b"SET", b"k", b"v"]), "+OK\r\n");
    for kind in ["SCRIPT", "FUNCTION"] {
        let before = used(&mut server);
        let filler = vec![b'x'; 300_000];
        let source = match kind {
            "SCRIPT" => [&b"return '"[..], &filler, b"'"].concat(),
            _ => [
                &b"#!lua name=l\nlocal s = '"[..],
                &filler,
                b"' redis.register_function('f', function() return 1 end)",
            ]
            .concat(),
        };
        let loaded = ask(&mut server, &[kind.as_bytes(), b"LOAD", &source]);
        assert!(loaded.starts_with('$'), "{loaded}");
        assert!(used(&mut server) >= before + 300_000, "{kind}");
        let refused = ask(&mut server, &[b"SET", b"k", b"v"]);
        assert!(refused.starts_with("-OOM"), "{kind}: {refused}");
        ask(&mut server, &[kind.as_bytes(), b"FLUSH"]);
        assert_eq!(ask(&mut server, &[b"SET", b"k", b"v"]), "+OK\r\n", "{kind}");
    }
}

#[test]
fn clients_and_scripts_are_told_the_version_of_the_setting() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut config = Config { dir: folder.path().to_owned(), ..Config::default() };
    assert!(config.set("redis-version", &["8.2"]).is_err());
    config.set("redis-version", &["8.2.11"]).expect("a version");
    let mut server = InProcess::new(config).expect("a server");
    assert!(ask(&mut server, &[b"INFO", b"server"]).contains("\r\nredis_version:8.2.11\r\n"));
    assert!(ask(&mut server, &[b"HELLO"]).contains("\r\nversion\r\n$6\r\n8.2.11\r\n"));
    let source = b"return redis.REDIS_VERSION .. ' ' .. redis.REDIS_VERSION_NUM";
    assert_eq!(ask(&mut server, &[b"EVAL", source, b"0"]), "$13\r\n8.2.11 524811\r\n");
    let library = b"#!lua name=l\nlocal at = redis.REDIS_VERSION \
                    redis.register_function('f', function() return at end)";
    ask(&mut server, &[b"FUNCTION", b"LOAD", library]);
    assert_eq!(ask(&mut server, &[b"FCALL", b"f", b"0"]), "$6\r\n8.2.11\r\n");
    assert!(ask(&mut server, &[b"CONFIG", b"SET", b"redis-version", b"7.0.0"]).starts_with('-'));
    assert!(ask(&mut server, &[b"CONFIG", b"GET", b"redis-version"]).contains("8.2.11"));
}
