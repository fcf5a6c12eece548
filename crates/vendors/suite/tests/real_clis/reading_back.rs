//! The files of sessions that the programs write, read back and compared with what the server received.

use std::ops::ControlFlow;

use convoke_agent::turn_input::Permissions;
use convoke_protocol::agent_event::RequestPurpose;
use convoke_protocol::verdict::Verdict;
use convoke_protocol::window::{At, Grade, Part, Place, Window};
use convoke_rehearsal::{Answer, Script};
use convoke_source::{Entry, EntryKind, FoundSession, Home, Kept};
use convoke_wire::normal::window;

use crate::test_host::{Cli, TestHost};

/// A request that was read back.
struct Rebuilt {
    window: Window,
    grade: Grade,
    output: Option<u64>,
}

pub async fn writes_sessions_that_are_read_back(cli: Cli) {
    let script =
        Script::new([cli.shell("echo READBACK"), Answer::say("Blue."), Answer::say("Still blue.")]);
    let Some(test) = TestHost::new(cli, script).await else {
        return;
    };
    let mut turn_input = test.turn_input("my colour is FIRSTMARK");
    turn_input.permissions = Permissions::Full;
    let first = test.run(turn_input).await;
    assert_eq!(first.verdict, Verdict::Done, "{first:?}");
    let mut turn_input = test.turn_input("and now SECONDMARK");
    turn_input.permissions = Permissions::Full;
    turn_input.resume = first.resume.clone();
    let second = test.run(turn_input).await;
    assert_eq!(second.reply, "Still blue.", "{second:?}");

    let sent = sent(&test);
    let rebuilt = read(&test, &first.resume.unwrap().session);
    assert_eq!(rebuilt.len(), sent.len(), "each request is found once");
    let best = match cli {
        Cli::Claude325 => Grade::Exact,
        // It does not log what it adds to messages.
        Cli::Claude197 => Grade::Partial,
        _ => Grade::Messages,
    };
    for (number, (sent, rebuilt)) in sent.iter().zip(&rebuilt).enumerate() {
        assert_eq!(rebuilt.grade, best, "request {number}");
        assert!(rebuilt.output.is_some_and(|output| output > 0), "request {number} is counted");
        if best != Grade::Partial {
            assert_eq!(parts(&rebuilt.window), parts(sent), "request {number}");
        }
        if best == Grade::Exact {
            assert_eq!(rebuilt.window.tools, sent.tools, "request {number}");
            let system = |window: &Window| {
                window.system.iter().map(|text| text.what.hash).collect::<Vec<_>>()
            };
            assert_eq!(system(&rebuilt.window), system(sent), "request {number}");
        }
    }
}

/// Returns the windows of the turns, as the server received them.
fn sent(test: &TestHost) -> Vec<Window> {
    let calls = test.server.model_calls();
    let turns = calls.iter().filter(|call| call.is_turn());
    let place = Place { file: "wire".into(), at: At::Whole };
    let windows = turns.map(|call| {
        window(call.model_call().unwrap().wire, &call.body, &place, usize::MAX).unwrap()
    });
    windows.collect()
}

fn read(test: &TestHost, id: &str) -> Vec<Rebuilt> {
    let source = convoke_vendors::sources().find(|it| it.program() == test.cli.kind()).unwrap();
    let codex_home = |name: &str| {
        (name == "CODEX_HOME").then(|| test.home.path().join("codex").into_os_string())
    };
    let home = Home { directory: test.home.path(), variable: &codex_home };
    let mut sessions: Vec<FoundSession> = Vec::new();
    source.list(&home, &mut |found| sessions.push(found.unwrap()));
    let session = sessions.iter().find(|it| it.id == id);
    let session = session.unwrap_or_else(|| panic!("{id} is not among {sessions:?}"));
    let mut rebuilt = Vec::new();
    let mut sink = |entry: Entry<'_>| {
        if let EntryKind::Request(request) = entry.kind
            && request.purpose == RequestPurpose::Answer
        {
            rebuilt.retain(|(key, _)| *key != request.key);
            let output = request.usage.map(|usage| usage.output);
            let window = request.window.clone();
            rebuilt.push((request.key, Rebuilt { window, grade: request.grade, output }));
        }
        ControlFlow::Continue(())
    };
    let mut reader = source.open(session, Kept::All).unwrap();
    reader.advance(&mut sink).unwrap();
    assert_eq!(reader.report().to_string(), "", "everything is known");
    rebuilt.sort_by_key(|(key, _)| *key);
    rebuilt.into_iter().map(|(_, it)| it).collect()
}

/// Returns the parts but for reasoning.
fn parts(window: &Window) -> Vec<(&'static str, &Part)> {
    let parts = window.parts.iter().map(|it| (it.role.as_str(), &it.part.what));
    parts.filter(|(_, part)| !matches!(part, Part::Thinking(_))).collect()
}
