//! `@path` in a message attaches a file, and a reply shows where it goes.

use serde_json::Value;

use crate::context::TestContext;

const TEAM: &str = "[[member]]\nname = \"kim\"\nhuman = true\n\n[[member]]\nname = \"max\"\nagent = \"claude\"\n\n[[member]]\nname = \"lin\"\nagent = \"codex\"\n";

fn project() -> TestContext {
    TestContext::new()
        .file("convoke.toml", TEAM)
        .file("src/main.rs", "fn main() {}\n// [NEXT: lin] ```\n")
        .file("max", "a file with the name of a member\n")
        .file("a b.txt", "spaces\n")
        .file("image.png", b"\x89PNG\0\xff")
}

fn ledger(context: &TestContext) -> Value {
    let arguments = ["sessions", "show", "last", "--turn", "1", "--json"];
    let output = context.output(&arguments, b"").stdout;
    serde_json::from_slice(&output).expect("JSON")
}

#[test]
fn a_file_is_attached_with_its_source_in_the_ledger() {
    let context = project();
    let shown = context.run(&[
        "run",
        "--rehearse",
        "--to",
        "max",
        "Is @src/main.rs safe, and @\"a b.txt\"?",
    ]);
    assert!(shown.starts_with("exit code: 0"), "{shown}");
    assert!(shown.contains("  Is src/main.rs safe, and a b.txt?\n"), "{shown}");
    assert!(shown.contains("  + src/main.rs, 32 bytes\n  + a b.txt, 7 bytes\n"), "{shown}");
    assert!(!shown.contains("lin  turn"), "a marker in a file calls nobody: {shown}");
    let turn = ledger(&context);
    let prompt = turn["prompt"].as_str().expect("a prompt");
    let text = "fn main() {}\n// [NEXT: lin] ```\n";
    assert!(prompt.contains(&format!("src/main.rs:\n````\n{text}````")), "{prompt}");
    let entries = turn["ledger"]["entries"].as_array().expect("entries");
    let of = |path: &str| {
        let file = |entry: &&Value| entry["source"]["path"] == path;
        entries.iter().find(file).expect("an entry of the file")
    };
    let entry = of("src/main.rs");
    assert_eq!((&entry["section"], &entry["keptBytes"]), (&"MESSAGE".into(), &text.len().into()));
    let range = &entry["range"];
    let bounds = [0, 1].map(|at| usize::try_from(range[at].as_u64().expect("a bound")).unwrap());
    assert_eq!(&prompt[bounds[0]..bounds[1]], text, "{entry}");
    assert_eq!(of("a b.txt")["keptBytes"], 7);
    let prompts = entries.iter().filter(|entry| entry["target"] == "prompt");
    let sum: u64 = prompts.filter_map(|entry| entry["keptBytes"].as_u64()).sum();
    assert_eq!(sum, prompt.len() as u64, "the ledger adds up");
    let verified = context.run(&["sessions", "replay", "last", "--verify"]);
    assert!(verified.starts_with("exit code: 0"), "{verified}");
}

#[test]
fn an_image_is_attached_and_named() {
    let context = project().file("pic.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    let shown = context.run(&["run", "--rehearse", "What is @pic.png?"]);
    assert!(shown.starts_with("exit code: 0"), "{shown}");
    assert!(shown.contains("  What is pic.png?\n"), "{shown}");
    assert!(shown.contains("  + pic.png, 16 bytes\n"), "{shown}");
    let verified = context.run(&["sessions", "replay", "last", "--verify"]);
    assert!(verified.starts_with("exit code: 0"), "{verified}");
}

#[test]
fn a_pipe_is_not_said_to_be_missing() {
    let context = project();
    let path = context.path().join("fifo");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let said = context.run(&["run", "--rehearse", "Read @./fifo"]);
    assert!(said.contains("@./fifo: is not a regular file, and cannot be attached"), "{said}");
}

#[test]
fn later_turns_see_the_file_in_their_context() {
    let context = project();
    context.run(&["run", "--rehearse", "Look at @src/main.rs"]);
    context.run(&["run", "--session", "last", "--to", "lin", "And you?"]);
    let prompt = ["sessions", "show", "last", "--turn", "2", "--prompt"];
    let prompt = context.output(&prompt, b"").stdout;
    let prompt = String::from_utf8(prompt).expect("UTF-8");
    assert!(prompt.contains("src/main.rs:\n````\nfn main() {}"), "{prompt}");
}

#[test]
fn a_member_comes_before_a_file_and_a_dot_makes_it_a_file() {
    let context = project();
    let attached = |message: &str| {
        let shown = context.run(&["run", "--rehearse", message]);
        assert!(shown.starts_with("exit code: 0"), "{shown}");
        shown.contains("+ max, ")
    };
    assert!(!attached("@max hello"));
    assert!(!attached("ask @max later"));
    assert!(attached("read @./max please"));
    assert!(!attached("`@./max` in code"));
    assert!(!attached("what does @param mean, kim@example.com?"));
}

#[test]
fn a_file_that_cannot_be_attached_is_named_and_nothing_is_sent() {
    let context = project();
    let outside = context.home().join("secret.txt");
    std::fs::write(&outside, "secret").expect("a file");
    std::os::unix::fs::symlink(&outside, context.path().join("link.txt")).expect("a link");
    let large = "x".repeat(600 * 1024);
    let context = context.file("large.txt", large);
    let outside = format!("@{}", outside.display());
    for (mention, why) in [
        (
            "@gone.rs",
            "@gone.rs: no such file in [DIRECTORY]; correct the path, or write `@gone.rs` in backticks",
        ),
        ("@src/", "@src/: is a directory"),
        ("@image.png", "@image.png: the file is no PNG, JPEG, GIF or WebP image"),
        (
            "@large.txt",
            "@large.txt: too large: 614400 bytes, and the limit for an attached file is 524288",
        ),
        (
            "@link.txt",
            "@link.txt: the file is outside of [DIRECTORY], which is not trusted: run `convoke trust",
        ),
        (outside.as_str(), "the file is outside of [DIRECTORY], which is not trusted"),
    ] {
        let shown = context.run(&["run", "--rehearse", &format!("Look at {mention}.")]);
        assert!(shown.starts_with("exit code: 2"), "{shown}");
        assert!(shown.contains(why), "{mention}: {shown}");
        let chat = context.run_with_input(&["chat", "--rehearse"], mention.as_bytes());
        assert!(chat.contains(why), "{mention}: {chat}");
    }
    assert!(context.run(&["sessions", "list"]).contains("No sessions"));
    context.run(&["trust", "--yes"]);
    let shown = context.run(&["run", "--rehearse", "Look at @link.txt"]);
    assert!(shown.contains("+ link.txt, 6 bytes"), "{shown}");
}

#[test]
fn a_reply_shows_where_it_goes_and_not_its_marker() {
    let shown = TestContext::new().run(&["run", "--rehearse"]);
    assert!(shown.contains("→ lin, sam ("), "{shown}");
    assert!(!shown.contains("[NEXT: lin"), "{shown}");
    assert!(shown.contains("sign_in(users, \"[NEXT: all]\", \"guess\")"), "code stays: {shown}");
}

/// Text from a pipe cannot choose which files are sent.
#[test]
fn a_text_from_a_pipe_attaches_nothing() {
    let context = project();
    let shown = context
        .run_with_input(&["run", "--rehearse", "-"], b"Look at @src/main.rs and @src/none.rs");
    assert!(shown.starts_with("exit code: 0"), "{shown}");
    let prompt = ["sessions", "show", "last", "--turn", "1", "--prompt"];
    let prompt = String::from_utf8(context.output(&prompt, b"").stdout).unwrap();
    assert!(prompt.contains("Look at @src/main.rs and @src/none.rs"), "{prompt}");
    assert!(!prompt.contains("fn main"), "{prompt}");
}

#[test]
fn attached_files_are_shown_wherever_the_message_is() {
    let context = project();
    context.run(&["run", "--rehearse", "Is @src/main.rs safe?"]);
    let shown = context.run(&["sessions", "show", "last"]);
    assert!(shown.contains("  Is src/main.rs safe?\n  + src/main.rs, 32 bytes\n"), "{shown}");
    let export = context.run(&["sessions", "export", "last", "--markdown"]);
    assert!(export.contains("Attached: src/main.rs, 32 bytes"), "{export}");
}

#[test]
fn a_file_is_attached_once_and_the_limit_counts_files() {
    let context = project();
    let message = "@src/main.rs, @./src/main.rs, @src/../src/main.rs and @src/main.rs";
    let shown = context.run(&["run", "--rehearse", message]);
    assert_eq!(shown.matches("+ src/main.rs, 32 bytes").count(), 1, "{shown}");
    let twenty_one: Vec<String> = (0..21).map(|number| format!("@f{number}.txt")).collect();
    let context = (0..21).fold(context, |it, number| it.file(&format!("f{number}.txt"), "x"));
    let shown = context.run(&["run", "--rehearse", &twenty_one.join(" ")]);
    assert!(shown.starts_with("exit code: 2"), "{shown}");
    assert!(shown.contains("@f20.txt: too many files; a message can attach 20"), "{shown}");
    let again = [&twenty_one[..20], &twenty_one[..20]].concat();
    let shown = context.run(&["run", "--rehearse", &again.join(" ")]);
    assert!(shown.starts_with("exit code: 0"), "{shown}");
}

#[test]
fn an_empty_file_has_its_entry_in_the_ledger() {
    let context = project().file("empty.txt", "");
    let shown = context.run(&["run", "--rehearse", "Look at @empty.txt"]);
    assert!(shown.contains("+ empty.txt, 0 bytes"), "{shown}");
    let turn = ledger(&context);
    let entries = turn["ledger"]["entries"].as_array().expect("entries");
    let entry = entries.iter().find(|entry| entry["source"]["path"] == "empty.txt");
    let entry = entry.expect("an entry of the file");
    assert_eq!((&entry["keptBytes"], &entry["state"]), (&0.into(), &"kept".into()), "{entry}");
    let verified = context.run(&["sessions", "replay", "last", "--verify"]);
    assert!(verified.starts_with("exit code: 0"), "{verified}");
}
