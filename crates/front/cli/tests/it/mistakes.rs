//! Mistakes that people make: each is answered in a few lines that say what to do.

use crate::context::TestContext;

const BAD: i32 = 2;
const FAILED: i32 = 1;

/// The command line, its exit code, and what the answer says.
const MISTAKES: &[(&str, i32, &str)] = &[
    // Names of commands, options and their values.
    ("explan", BAD, "a similar subcommand exists: 'explain'"),
    ("sesions", BAD, "a similar subcommand exists: 'sessions'"),
    ("help nothing", BAD, "unrecognized subcommand 'nothing'"),
    ("run --rehears hi", BAD, "a similar argument exists: '--rehearse'"),
    ("run --rehearse=fast hi", BAD, "[possible values: stand-in, cli, no]"),
    ("--deny x run", BAD, "tip: 'run --deny' exists"),
    ("run --deny nothing --rehearse hi", BAD, "`convoke docs diagnostics` lists them"),
    ("--color blue sessions", BAD, "[possible values: auto, always, never]"),
    ("completions tcsh", BAD, "[possible values: bash, zsh, fish]"),
    ("explain --format xml", BAD, "[possible values: json, sarif, github, markdown]"),
    ("usage --since yesterday", BAD, "a day is written 2026-11-01"),
    (
        "usage --by color",
        BAD,
        "[possible values: day, week, month, agent, model, project, session]",
    ),
    ("acp extra", BAD, "unexpected argument 'extra'"),
    ("mcp --team x", BAD, "unexpected argument '--team'"),
    // Numbers.
    ("serve --port 80a", BAD, "a port is a number from 0 to 65535; 0 takes a free one"),
    ("serve --port 99999", BAD, "a port is a number from 0 to 65535"),
    ("sessions list --limit many", BAD, "a number"),
    ("changes --turn 0", BAD, "a turn number is 1 or more"),
    ("changes --turn first", BAD, "a turn number is 1 or more"),
    // Sessions that do not exist.
    ("sessions show", BAD, "`convoke run` starts one"),
    ("sessions show --turn 9", BAD, "there are no sessions of Convoke yet"),
    ("sessions show nothing", BAD, "no session `nothing`; `convoke sessions list --all` lists"),
    ("sessions export --format md", BAD, "there are no sessions of Convoke yet"),
    ("sessions fork nothing", BAD, "no session `nothing`"),
    ("sessions remove nothing", BAD, "no session `nothing`"),
    ("sessions rename nothing x", BAD, "no session `nothing`"),
    ("sessions verify nothing", BAD, "no session `nothing`"),
    ("sessions restore nothing", BAD, "`convoke sessions restore` lists the sessions"),
    ("sessions resume", BAD, "<ID>"),
    ("sessions search", BAD, "<WORDS>"),
    ("sessions copy", BAD, "--to <URL>"),
    ("sessions migrate", BAD, "pass --store URL"),
    ("open nothing", BAD, "no session `nothing`"),
    ("open claude:nothing", BAD, "no session of claude has an id that begins with `nothing`"),
    ("open notes.txt", BAD, "is not a session of a program that is known here: claude, codex"),
    ("open missing.jsonl", BAD, "missing.jsonl"),
    ("run --session nothing hi", BAD, "no session `nothing`"),
    ("run --session last hi", BAD, "no session belongs to this directory"),
    ("undo", BAD, "no session belongs to this directory"),
    ("undo nothing", BAD, "no session `nothing`"),
    ("redo --turn 3", BAD, "no session belongs to this directory"),
    ("changes apply bob", BAD, "no session belongs to this directory"),
    ("changes blame notes.txt", BAD, "there are no sessions of Convoke yet"),
    ("continue nothing --with codex", BAD, "no session `nothing`"),
    // Files and directories.
    ("run hi there", BAD, "`convoke init` writes one, and `convoke run --rehearse` shows a sample"),
    (
        "run --team missing.toml hi",
        BAD,
        "name a file that exists, or write one with `convoke init`",
    ),
    ("run --team bad.toml hi", BAD, "close the list with `]`"),
    ("run --team directory hi", BAD, "name the team file in the directory"),
    ("check", BAD, "name a file, or write one with"),
    ("check notes.txt", BAD, "write `name = value`"),
    ("sessions import", BAD, "<FILE>"),
    ("sessions import missing", BAD, "cannot read missing"),
    ("sessions import notes.txt", BAD, "notes.txt is no exported session"),
    (
        "sessions import 5f0c2a9e-0000-4000-8000-000000000001.jsonl",
        BAD,
        " is a session of claude; see it with ",
    ),
    ("trust missing", BAD, "cannot read missing"),
    ("trust notes.txt", BAD, "name the directory of the team file"),
    ("explain missing", BAD, "does not exist"),
    ("explain notes.txt", BAD, "is not a directory; pass the working directory of the agents"),
    ("request --tools missing.json hi", BAD, "cannot read missing.json"),
    ("request --tools notes.txt hi", BAD, "notes.txt is not JSON"),
    ("request --pack missing hi", BAD, "cannot read the pack's file"),
    // Agents, members, endpoints.
    (
        "run --rehearse --to bob hi",
        BAD,
        "no member has the name `bob`; members: you, ada, lin, sam",
    ),
    ("run --script missing.txt hi", BAD, "--rehearse"),
    ("run --rehearse --script missing.txt hi", BAD, "missing.txt"),
    (
        "run --rehearse --script notes.txt hi",
        BAD,
        "notes.txt:1: a turn begins with the name of an agent",
    ),
    ("prompt --for bob --team ok.toml", BAD, "no member has the name `bob`; members: kim, max"),
    ("doctor --agent nothing", BAD, "unknown agent `nothing`; the agents are claude"),
    ("explain --agent claude@9", BAD, "claude@2.1.325"),
    ("request --agent nothing hi", BAD, "use claude, codex or gemini"),
    ("request --agent claude hi", BAD, "claude is not on the PATH; install it"),
    ("capture", BAD, "write for example `convoke capture -- claude \"hello\"`"),
    ("capture -- nothing", BAD, "program `nothing` not found"),
    ("watch -- nothing", BAD, "`nothing` was not found: install it, or give its path"),
    ("watch -- ls", BAD, "Convoke can watch claude, codex, gemini"),
    ("ask", BAD, "the question is empty"),
    ("ask hi there", BAD, "set OPENAI_API_KEY, pass --base-url URL"),
    ("docs nonsense", BAD, "`convoke docs` lists the pages"),
    // Stores.
    ("node", BAD, "pass --store URL (see `convoke docs store`)"),
    ("nodes", BAD, "pass --store URL (see `convoke docs store`)"),
    ("--store elsewhere sessions", BAD, "use postgres://user@host/database"),
    (
        "--store postgres://127.0.0.1:1/x sessions",
        FAILED,
        "no server listens there: start it, or correct the URL",
    ),
];

fn project() -> TestContext {
    TestContext::new()
        .file("notes.txt", "hello\n")
        .file("bad.toml", "x = [\n")
        .file("directory/file", "")
        .file("ok.toml", "[[member]]\nname = \"kim\"\nhuman = true\n[[member]]\nname = \"max\"\nagent = \"claude\"\n")
        .file("5f0c2a9e-0000-4000-8000-000000000001.jsonl", "{\"type\":\"user\",\"timestamp\":\"2026-11-17T06:34:00.213Z\",\"isSidechain\":false,\"userType\":\"external\",\"sessionId\":\"5f0c2a9e-0000-4000-8000-000000000001\",\"uuid\":\"a\",\"parentUuid\":null,\"version\":\"2.1.100\",\"cwd\":\"/x\",\"message\":{\"role\":\"user\",\"content\":\"hi\"}}\n")
        .env("PATH", "/usr/bin:/bin")
}

#[test]
fn every_mistake_is_answered_with_what_to_do() {
    let project = project();
    let mut wrong = Vec::new();
    for (line, code, told) in MISTAKES {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        let output = project.output(&arguments, b"");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_short = said.lines().count() <= 14;
        let is_clean =
            ["os error", "panicked", "RUST_BACKTRACE", "Err("].iter().all(|it| !said.contains(it));
        if output.status.code() != Some(*code) || !said.contains(told) || !is_short || !is_clean {
            wrong.push(format!(
                "convoke {line}\n{:?}, expected {code} and {told:?}:\n{said}",
                output.status.code()
            ));
        }
    }
    assert!(MISTAKES.len() >= 60);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_user_without_the_variable_of_the_home_works_in_the_home_of_the_account_or_is_told_its_place() {
    let project = project();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_convoke"))
        .args(["sessions"])
        .current_dir(project.path())
        .env_clear()
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let is_told = said.contains("HOME") || said.contains("cannot open the session store: /");
    assert!(output.status.success() || is_told, "{said}");
}
