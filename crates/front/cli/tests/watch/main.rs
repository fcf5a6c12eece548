//! `convoke watch`, with programs that are written here and with the real CLIs in a real terminal. The model server is on
//! bare sockets, so that bodies are compared byte for byte.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and reports that it is skipped"
)]

mod budget;
mod failures;
#[path = "../installed/mod.rs"]
mod installed;
#[path = "../relay_clis/model_server.rs"]
mod model_server;
mod person;
mod real_clis;
mod signals;
mod terminal;

use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use self::person::Person;

const KEY: &str = "sk-watch-0123456789abcdefghijklmnop";

#[test]
fn a_program_sends_what_it_would_send_and_every_request_is_stored() {
    let person = Person::new("send one; send two; cat; exit 7");
    let alone = person.run_alone(b"typed\n");
    let direct = person.take_calls();
    let watched = person.watch(&[], b"typed\n");
    let sent = person.take_calls();
    assert_eq!(watched.status.code(), alone.status.code());
    assert_eq!(watched.stdout, alone.stdout, "its output is its own");
    assert_eq!(direct.len(), 2);
    for (direct, sent) in direct.iter().zip(&sent) {
        assert_eq!((&direct.path, &direct.body), (&sent.path, &sent.body));
        let headers = |headers: &[(String, String)]| -> Vec<(String, String)> {
            headers.iter().filter(|(name, _)| name != "host").cloned().collect()
        };
        assert_eq!(headers(&direct.headers), headers(&sent.headers));
    }
    let told = String::from_utf8(watched.stderr).unwrap();
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 2, "{told}");
    assert!(lines[0].contains("the requests of claude are recorded in session"), "{told}");
    assert!(lines[1].contains("claude sent 2 requests: 200 tokens in (180 from its cache), 8 out"));

    let stored = person.convoke(&["sessions", "show", "last", "--request", "--json"]);
    let stored: Vec<Value> = stored.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let bodies = stored.iter().map(|it| it["body"].as_str().unwrap().as_bytes());
    assert!(bodies.eq(sent.iter().map(|it| &it.body[..])), "{stored:?}");
    for request in &stored {
        assert_eq!((&request["usage"]["input"], &request["status"]), (&100.into(), &200.into()));
        let entries = request["ledger"]["entries"].as_array().unwrap();
        assert!(!entries.is_empty(), "{request}");
    }
    let listed = person.convoke(&["sessions", "list"]);
    assert!(listed.contains("claude"), "{listed}");
    let cache = person.convoke(&["sessions", "show", "last", "--cache"]);
    assert!(cache.contains("claude, request 2"), "{cache}");
}

#[test]
fn a_quiet_watch_says_nothing_and_a_name_is_the_sessions() {
    let person = Person::new("send one");
    let watched = person.watch(&["--quiet", "--name", "the migration"], b"");
    assert_eq!(String::from_utf8(watched.stderr).unwrap(), "");
    assert!(person.convoke(&["sessions", "list"]).contains("the migration"));
}

#[test]
fn an_address_in_the_users_settings_is_redirected_too() {
    let mut person = Person::new("send one");
    let settings = format!(r#"{{"env":{{"ANTHROPIC_BASE_URL":"{}"}}}}"#, person.server.url());
    std::fs::create_dir(person.home.path().join(".claude")).unwrap();
    std::fs::write(person.home.path().join(".claude/settings.json"), settings).unwrap();
    // The program obeys its settings; this address is a dead one.
    person.env.retain(|(name, _)| *name != "ANTHROPIC_BASE_URL");
    person.env.push(("ANTHROPIC_BASE_URL", "http://127.0.0.1:1".to_owned()));
    let arguments = ["watch", "--", "claude", "--", "fix it"];
    let command = person.command(env!("CARGO_BIN_EXE_convoke"), &arguments);
    let watched = person::output(command, b"");
    let error = String::from_utf8(watched.stderr).unwrap();
    assert_eq!(person.take_calls().len(), 1, "{error}");
    assert!(error.contains("claude sent 1 request"), "{error}");
    assert!(person.convoke(&["sessions", "show", "last"]).contains("claude -- 'fix it'"));
}

#[test]
fn a_page_shows_the_session_while_the_program_runs() {
    let person = Person::new("send one; while [ ! -e opened ]; do sleep 0.05; done; cat shown");
    // The browser reads the file that leads it to the page, and asks for the page without its token.
    let browser = "#!/bin/bash\nurl=$(sed 's/.*url=\\([^#]*\\)#.*/\\1/' \"$1\"); url=${url#http://}\n\
                   exec 3<>\"/dev/tcp/${url%%:*}/$(echo ${url#*:} | cut -d/ -f1)\"\n\
                   printf 'GET /%s HTTP/1.1\\r\\nhost: %s\\r\\n\\r\\n' \"${url#*/}\" \"${url%%/*}\" >&3\n\
                   read -r line <&3; echo \"$line\" >shown; touch opened\n";
    let path = person.home.path().join("bin/xdg-open");
    std::fs::write(&path, browser).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let watched = person.watch(&["--open"], b"");
    let (shown, error) = (watched.stdout, String::from_utf8(watched.stderr).unwrap());
    assert!(String::from_utf8_lossy(&shown).starts_with("HTTP/1.1 200"), "{shown:?} {error}");
    assert!(error.lines().next().unwrap().contains(": http://127.0.0.1:"), "{error}");
}

#[test]
fn records_are_for_the_person_alone_and_have_no_key() {
    let person = Person::new("send one");
    person.watch(&[], b"");
    let mut found = 0;
    let mut directories = vec![person.home.path().join("data")];
    while let Some(directory) = directories.pop() {
        assert_eq!(directory.metadata().unwrap().permissions().mode() & 0o077, 0);
        for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                directories.push(entry.path());
                continue;
            }
            let path = entry.path();
            let mode = path.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{}", path.display());
            let bytes = std::fs::read(&path).unwrap();
            let has_key = bytes.windows(KEY.len()).any(|it| it == KEY.as_bytes());
            assert!(!has_key, "the key is in {}", path.display());
            found += 1;
        }
    }
    assert!(found > 0);
    // The files that led the program to the relay are gone.
    assert_eq!(std::fs::read_dir(person.temporary.path()).unwrap().count(), 0);
}
