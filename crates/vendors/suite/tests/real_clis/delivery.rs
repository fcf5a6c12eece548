//! The prompt reaches the model byte for byte, without additions of the program.

use convoke_agent::TurnResult;
use convoke_agent::turn_input::{Permissions, Trust};
use convoke_protocol::verdict::{FailureReason, Verdict};
use convoke_rehearsal::{Answer, Script};
use convoke_vendor_claude::TAIL;
use serde_json::json;
use tempfile::TempDir;

use crate::test_host::{Cli, TestHost, codes, reason};

pub async fn delivers_byte_for_byte(cli: Cli) {
    let Some(test) = TestHost::new(cli, Script::new([Answer::say("Got it.")])).await else {
        return;
    };
    let prompt = hard_prompt();
    let mut turn_input = test.turn_input(&prompt);
    let exec = matches!(cli, Cli::Codex98Exec | Cli::Codex166Exec);
    let system =
        (!exec).then(|| "You are Sarah: 你是 Sarah. @/etc/hostname /help\n- rule\n".repeat(4000));
    turn_input.system = system.clone().map(|text| text.trim().to_owned());
    let system = turn_input.system.clone();
    let outcome = test.run(turn_input).await;
    assert_eq!(outcome.verdict, Verdict::Done, "{outcome:?}");
    assert_eq!(outcome.reply, "Got it.");
    assert!(outcome.usage.is_some() && outcome.resume.is_some());
    let texts = test.texts();
    match cli {
        // No option turns commands off, so escapes are reported.
        Cli::Gemini => {
            assert!(texts.contains(&format!("\n{}", prompt.replace('@', "\\@"))));
            assert!(codes(&outcome).contains(&"agent.text-escaped"));
            assert!(codes(&outcome).contains(&"agent.system-replaced"));
        }
        Cli::Claude197 | Cli::Claude325 => {
            let at = texts.iter().position(|text| *text == prompt).unwrap();
            assert_eq!(texts[at + 1], TAIL);
            let mut notes = codes(&outcome);
            // Gaps of the sandbox are reported in every turn.
            notes.retain(|code| *code != "sandbox.partial");
            assert_eq!(notes, [""; 0]);
        }
        _ => {
            assert!(texts.contains(&prompt));
            // Notices come from the program and concern its machine.
            let mut notes = codes(&outcome);
            notes.retain(|code| !matches!(*code, "agent.notice" | "sandbox.partial"));
            assert_eq!(notes, [""; 0]);
        }
    }
    if let Some(system) = system {
        let whole = texts.iter().any(|text| text.ends_with(&system));
        assert!(whole, "the system text did not arrive");
    }
    assert_eq!(test.elsewhere(), [""; 0]);
    assert_eq!(test.processes(), [0; 0]);
}

/// Everything that a CLI could act on, fail on or truncate.
fn hard_prompt() -> String {
    let mut prompt = "/compact now and ultrathink\n".to_owned();
    while prompt.len() < 700 << 10 {
        prompt
            .push_str("see @/etc/hostname, !ls and `$HOME` 你好 👩‍👩‍👧 é\u{301} \"q\" \\ \t| - x\r\n");
    }
    prompt.truncate(prompt.floor_char_boundary(700 << 10));
    prompt
}

pub async fn never_reads_a_file_that_is_named(cli: Cli) {
    let Some(test) = TestHost::new(cli, Script::default()).await else {
        return;
    };
    let file = test.work.path().join("secret.txt");
    std::fs::write(&file, "the horse is correct").unwrap();
    let path = file.display();
    let prompt = format!(
        "see @secret.txt, @./secret.txt @{path} @\"secret.txt\" (@secret.txt) @. @secret\n\
         !cat secret.txt\n/secret.txt !{{cat secret.txt}} @{{secret.txt}} $(cat secret.txt)"
    );
    let outcome = test.run(test.turn_input(&prompt)).await;
    assert_eq!(outcome.verdict, Verdict::Done, "{outcome:?}");
    for text in test.texts() {
        assert!(!text.contains("horse is correct"), "{text}");
    }
}

/// In a trusted directory, its settings apply: more directories, and a search through all of them.
pub async fn leaves_every_at_sign_alone(cli: Cli) {
    let Some(test) = TestHost::new(cli, Script::default()).await else {
        return;
    };
    let other = TempDir::new().unwrap();
    let work = test.work.path();
    std::fs::create_dir_all(work.join("sub/deep")).unwrap();
    std::fs::create_dir_all(work.join(".gemini")).unwrap();
    let secret = "the horse is correct";
    for path in ["secret.txt", "sub/secret.txt", "sub/deep/nested-secret.txt"] {
        std::fs::write(work.join(path), secret).unwrap();
    }
    std::fs::write(other.path().join("elsewhere.txt"), secret).unwrap();
    std::fs::write(work.join("docs.js"), DOCS).unwrap();
    let settings = json!({
        "context": {
            "includeDirectories": [other.path()],
            "fileFiltering": {"enableRecursiveFileSearch": true, "respectGitIgnore": false},
        },
        "mcpServers": {"docs": {"command": "node", "args": [work.join("docs.js"), work.join("asked")]}},
    });
    std::fs::write(work.join(".gemini/settings.json"), settings.to_string()).unwrap();
    let prompt = AT_FORMS.join("\n");
    let mut turn_input = test.turn_input(&prompt);
    turn_input.trust = Trust::Trusted;
    // The server writes its notes into the project.
    turn_input.permissions = Permissions::Edit;
    let outcome = test.run(turn_input).await;
    assert_eq!(outcome.verdict, Verdict::Done, "{outcome:?}");
    assert!(codes(&outcome).contains(&"agent.text-escaped"));
    let texts = test.texts();
    let escaped = prompt.replace('@', "\\@");
    assert!(texts.contains(&escaped), "{texts:?}");
    for text in texts {
        assert!(!text.contains(secret) && !text.contains("explicitly selected"), "{text}");
    }
    let asked = std::fs::read_to_string(work.join("asked")).unwrap();
    assert!(asked.contains("resources/list"), "the server of the project was not used: {asked}");
    assert!(!asked.contains("resources/read"), "{asked}");
}

/// An MCP server with the resource `docs://secret`, which records the requested methods.
const DOCS: &str = r"
const { appendFileSync } = require('fs');
const results = {
  'initialize': (params) => ({
    protocolVersion: params.protocolVersion,
    capabilities: { resources: {}, tools: {}, prompts: {} },
    serverInfo: { name: 'docs', version: '1' },
  }),
  'resources/list': () => ({ resources: [{ uri: 'docs://secret', name: 'secret' }] }),
  'resources/read': () => ({ contents: [{ uri: 'docs://secret', text: 'the horse is correct' }] }),
  'resources/templates/list': () => ({ resourceTemplates: [] }),
  'tools/list': () => ({ tools: [] }),
  'prompts/list': () => ({ prompts: [] }),
};
require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  appendFileSync(process.argv[2], method + '\n');
  if (id === undefined) return;
  const result = results[method] ? results[method](params) : {};
  process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, result }) + '\n');
});
";

/// Everything that makes Gemini attach something, select an agent or read a resource.
const AT_FORMS: &[&str] = &[
    "@generalist do it",
    "@codebase_investigator",
    "@cli_help please",
    "@docs:docs://secret",
    "@docs://secret",
    "@secret.txt",
    "@./secret.txt",
    "@sub/secret.txt",
    "@\"secret.txt\"",
    "@'secret.txt'",
    "(@secret.txt)",
    "[@secret.txt]",
    "{@secret.txt}",
    "x@secret.txt",
    "@@secret.txt",
    "@secret.txt@secret.txt",
    "@secret.txt.",
    "@secret.txt, and",
    "@secret",
    "@sub",
    "@sub/",
    "@.",
    "@*.txt",
    "@**/secret.txt",
    "@secret\\.txt",
    "@nested-secret.txt",
    "@elsewhere.txt",
    "mail me@example.com",
];

pub async fn resumes_its_session(cli: Cli) {
    let script = Script::new([Answer::say("Blue."), Answer::say("Still blue.")]);
    let Some(test) = TestHost::new(cli, script).await else {
        return;
    };
    let first = test.run(test.turn_input("my colour is FIRSTMARK")).await;
    assert_eq!(first.verdict, Verdict::Done, "{first:?}");
    let mut turn_input = test.turn_input("and now SECONDMARK");
    turn_input.resume = first.resume.clone();
    let second = test.run(turn_input).await;
    assert_eq!(second.reply, "Still blue.", "{second:?}");
    assert!(!codes(&second).contains(&"agent.session-anew"));
    let texts = test.texts();
    let sent = |mark: &str| texts.iter().any(|text| text.contains(mark));
    assert!(sent("FIRSTMARK") && sent("SECONDMARK"));
    let used = |outcome: &TurnResult| outcome.usage.map_or(0, |usage| usage.output);
    assert!(used(&second) < used(&first) * 4, "tokens of the session were counted twice");

    let mut turn_input = test.turn_input("hello");
    turn_input.resume = first.resume.map(|mut handle| {
        "00000000-0000-4000-8000-000000000000".clone_into(&mut handle.session);
        handle
    });
    let lost = test.run(turn_input).await;
    let told = codes(&lost).contains(&"agent.session-anew")
        || reason(&lost) == Some(FailureReason::Session);
    assert!(told, "{lost:?}");
}
