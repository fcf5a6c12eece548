use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use convoke_source::{Entry, EntryKind, FoundSession, Home, Kept, SessionSource};

const ID: &str = "00000000-0000-4000-8000-000000000001";

/// Reads any file of Claude Code.
pub fn claude_sessions(bytes: &[u8]) -> bool {
    read_file("claude", &format!(".claude/projects/p/{ID}.jsonl"), bytes)
}

/// Reads any file of Codex.
pub fn codex_sessions(bytes: &[u8]) -> bool {
    let path = format!(".codex/sessions/2026/11/01/rollout-2026-11-01T10-00-00-{ID}.jsonl");
    read_file("codex", &path, bytes)
}

/// Reads any file of Copilot CLI.
pub fn copilot_sessions(bytes: &[u8]) -> bool {
    read_file("copilot", &format!(".copilot/session-state/{ID}/events.jsonl"), bytes)
}

/// Reads any file of Gemini CLI.
pub fn gemini_sessions(bytes: &[u8]) -> bool {
    read_file("gemini", ".gemini/tmp/p/chats/session-2026-11-01T10-00-00000000.jsonl", bytes)
}

/// Reads any file of Kimi Code.
pub fn kimi_sessions(bytes: &[u8]) -> bool {
    read_file("kimi", ".kimi-code/sessions/wd_p_000000000000/s/agents/main/wire.jsonl", bytes)
}

/// Reads any file of pi.
pub fn pi_sessions(bytes: &[u8]) -> bool {
    read_file("pi", &format!(".pi/agent/sessions/--p--/x_{ID}.jsonl"), bytes)
}

/// Reads any files of opencode. A line is a file; its first byte tells whether it is of a session, a message or a part.
pub fn opencode_sessions(bytes: &[u8]) -> bool {
    let home = tempfile::tempdir().expect("a directory");
    let storage = home.path().join(".local/share/opencode/storage");
    let mut message = 0;
    for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate().take(200) {
        let Some((kind, json)) = line.split_first() else { continue };
        let path = match kind {
            b's' => "session/p/ses_1.json".to_owned(),
            b'm' => {
                message += 1;
                format!("message/ses_1/msg_{message}.json")
            }
            _ => format!("part/msg_{message}/prt_{number}.json"),
        };
        write(&storage.join(path), json);
    }
    read("opencode", home.path())
}

fn read_file(program: &str, path: &str, bytes: &[u8]) -> bool {
    let home = tempfile::tempdir().expect("a directory");
    write(&home.path().join(path), bytes);
    read(program, home.path())
}

fn write(path: &Path, bytes: &[u8]) {
    let parent = path.parent().expect("a file is in a directory");
    fs::create_dir_all(parent).expect("a directory is made");
    fs::write(path, bytes).expect("a file is written");
}

/// Reads every session of a home in every way: it ends, a second reading tells the same, and whoever asks for figures only gets
/// the same requests.
fn read(program: &str, home: &Path) -> bool {
    let sources = convoke_vendors::sources();
    let source = sources.into_iter().find(|it| it.program() == program).expect("a known program");
    let mut sessions = Vec::new();
    let home = Home { directory: home, variable: &|_| None };
    source.list(&home, &mut |found| sessions.extend(found.ok()));
    let mut requests = 0;
    for session in &sessions {
        let told = tell(source, session, Kept::All);
        assert_eq!(told, tell(source, session, Kept::All), "a second reading tells something else");
        tell(source, session, Kept::Said);
        tell(source, session, Kept::Figures);
        requests += told.iter().filter(|entry| entry.starts_with("request")).count();
    }
    requests > 0
}

fn tell(source: &dyn SessionSource, session: &FoundSession, kept: Kept) -> Vec<String> {
    let mut told = Vec::new();
    let mut sink = |entry: Entry<'_>| {
        told.push(match &entry.kind {
            EntryKind::Request(request) => {
                let parts = request.window.parts.len();
                format!("request {} {parts} {:?} {:?}", request.key, request.grade, request.usage)
            }
            other => format!("{other:?}"),
        });
        ControlFlow::Continue(())
    };
    if let Ok(mut reader) = source.open(session, kept) {
        let _ = reader.advance(&mut sink);
        let _ = reader.report().to_string();
    }
    told
}
