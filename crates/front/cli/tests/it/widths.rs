//! The output of every command that prints for people, on terminals of 40, 80 and 120 columns.

use unicode_width::UnicodeWidthStr as _;

use crate::context::TestContext;

const WIDTHS: [usize; 3] = [40, 80, 120];

/// The compared output of a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compared {
    /// The output, with a snapshot.
    Whole,
    /// The width: the output has ages, or depends on the machine.
    Width,
}

use Compared::{Whole, Width};

/// The commands, in the order in which they run: later ones show what earlier ones stored.
const COMMANDS: &[(Compared, &[&str])] = &[
    (Width, &["--help"]),
    (Whole, &["run", "--help"]),
    (Whole, &["explain", "--help"]),
    (Whole, &["check"]),
    (Whole, &["check", "bad.toml"]),
    (
        Whole,
        &[
            "run",
            "--rehearse",
            "Is the token in src/session.rs safe, and what do the tests leave open?",
        ],
    ),
    (Width, &["sessions"]),
    (Width, &["sessions", "list"]),
    (Whole, &["sessions", "show", "last"]),
    (Whole, &["sessions", "show", "last", "--turn", "1"]),
    (Whole, &["sessions", "show", "last", "--turn", "1", "--explain"]),
    (Width, &["sessions", "search", "token"]),
    (Whole, &["sessions", "replay", "last", "--verify"]),
    (Whole, &["sessions", "verify"]),
    (Whole, &["sessions", "diff", "--help"]),
    (Whole, &["sessions", "rename", "last", "a review"]),
    (Width, &["explain", "--agent", "claude@2.1.325,gemini,codex@0.166"]),
    (Width, &["doctor"]),
    (Width, &["trust", "--yes"]),
    (Width, &["changes"]),
    (Whole, &["ask", "--threads"]),
    (Whole, &["docs"]),
    (Width, &["docs", "trust"]),
    (Whole, &["nonsense"]),
    (Whole, &["run", "--to", "nobody", "--rehearse", "Hello"]),
];

fn project() -> TestContext {
    let team = "name = \"auth review\"\ntask = \"Review the authentication module before the release\"\n\n\
        [[member]]\nname = \"kim\"\nhuman = true\n\n[[member]]\nname = \"max\"\nagent = \"claude\"\n\
        instructions = \"You are Max, and you review with care.\"\n\n[[member]]\nname = \"lin\"\nagent = \"codex\"\n";
    TestContext::of_fixed_length()
        .file("convoke.toml", team)
        .file(
            "bad.toml",
            "nme = \"x\"\n[context]\nwindow = \"five messages\"\n[[members]]\nname = \"max\"\n",
        )
        .file("AGENTS.md", "Use tabs.\n")
        .file("CLAUDE.md", "@AGENTS.md\n")
        .file(".git/HEAD", "ref: refs/heads/main\n")
        .env("TERM", "xterm")
        .env("NO_COLOR", "1")
        .env("USER", "kim")
}

/// Returns the lines that are wider than the screen and could have been broken at a space before its end.
fn too_wide(text: &str, width: usize) -> Vec<&str> {
    let could_break = |line: &&str| {
        let indent = line.len() - line.trim_start().len();
        let mut spaces = line.match_indices(' ').map(|(at, _)| at).filter(|at| *at > indent);
        let is_json = line.starts_with('{');
        line.width() > width && !is_json && spaces.any(|at| line[..at].width() <= width)
    };
    text.lines().filter(could_break).collect()
}

/// Replaces the times that are broken across two lines.
fn without_broken_times(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let time = lines.last_mut().and_then(|before| {
            let at = before.rfind('(')?;
            let is_time = before[at + 1..].parse::<f64>().is_ok();
            (is_time && line.trim_start().starts_with("s)")).then_some((before, at))
        });
        match time {
            Some((before, at)) => {
                before.replace_range(at.., "(TIME");
                lines.push(line.replacen("s)", ")", 1));
            }
            None => lines.push(line.to_owned()),
        }
    }
    lines.join("\n")
}

#[test]
fn every_command_fits_its_terminal() {
    let mut wide = Vec::new();
    for width in WIDTHS {
        let context = project();
        let mut report = String::new();
        for (compared, arguments) in COMMANDS {
            let Some(text) = context.on_a_terminal_of(width, arguments) else { return };
            let over = too_wide(&text, width);
            wide.extend(over.iter().map(|line| format!("{width} columns, {arguments:?}: {line}")));
            if *compared == Whole {
                let text = context.masked(&without_broken_times(&text));
                report.extend(["$ convoke ", &arguments.join(" "), "\n", &text, "\n\n"]);
            }
        }
        insta::assert_snapshot!(format!("commands_at_{width}_columns"), report);
    }
    assert!(wide.is_empty(), "{}", wide.join("\n"));
}
