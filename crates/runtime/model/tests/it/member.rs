//! A member's turns: what is sent, what is stored, and what a failure leaves.

use std::sync::Arc;
use std::time::Duration;

use convoke_agent::Agent;
use convoke_agent::config::ApiWire;
use convoke_agent::thread::{MemoryThreadStore, Stored, ThreadStore};
use convoke_agent::turn_input::Trust;
use convoke_protocol::id::ThreadId;
use convoke_protocol::image::Image;
use convoke_protocol::request::{RequestEnd, RequestOutcome, RequestRecord, RequestTexts};
use convoke_protocol::thread::{ThreadAppend, ThreadLine};
use convoke_protocol::usage::Usage;
use convoke_protocol::verdict::{Failure, FailureReason, Verdict};
use convoke_rehearsal::{Answer, End, Reply, Script};
use tokio::sync::Semaphore;

use crate::lab::{KEY, Lab, TIMEOUT, take};

/// Makes one setting invalid.
type Change = fn(&mut convoke_agent::config::Api);

const WIRES: [ApiWire; 2] = [ApiWire::Responses, ApiWire::Chat];

fn reason(verdict: &Verdict) -> Option<FailureReason> {
    match verdict {
        Verdict::Failed(Failure { reason, .. }) => Some(*reason),
        _ => None,
    }
}

#[tokio::test]
async fn a_turn_is_reported_as_events_and_comes_to_an_outcome() {
    for wire in WIRES {
        let usage = convoke_rehearsal::Usage { input: 900, output: 5, cached: 800 };
        let reply =
            Reply::default().think("A greeting.").say("Good ").say("day.").with_usage(usage);
        let lab = Lab::new(wire, Script::new([reply.into()])).await;
        let taken = lab.say("Hello", None).await;
        let expected = ["started", "thought A greeting.", "text Good day.", "finished done"];
        assert_eq!(taken.story(), expected, "{wire:?}");
        assert_eq!(taken.reply(), "Good day.");
        assert_eq!(taken.outcome.model.as_deref(), Some("test-model"));
        let counted = Usage { input: 900, output: 5, cached: 800, ..Usage::default() };
        // Chat servers are not asked to count, because Codex does not.
        let expected = (wire == ApiWire::Responses).then_some(counted);
        assert_eq!(taken.outcome.usage, expected);
        let body = &lab.bodies()[0];
        assert!(body.contains("Be brief.") && body.contains("Hello"), "{body}");
        assert!(body.contains("\"tools\":[]"), "a member without tools is told of none");
    }
}

#[tokio::test]
async fn a_thread_goes_on_after_a_restart_and_what_was_sent_stays_as_it_was() {
    for wire in WIRES {
        let script = ["One.", "Two.", "Three."].map(Answer::say);
        let lab = Lab::new(wire, Script::new(script)).await;
        let first = lab.say("First question", None).await;
        let second = lab.say("Second question", Some(&first)).await;
        let third = lab.say("Third question", Some(&second)).await;
        assert_eq!(third.reply(), "Three.");
        assert_eq!(first.thread(), third.thread());
        let bodies = lab.bodies();
        for pair in bodies.windows(2) {
            let end = pair[0].find("],\"tools\":").or(pair[0].find("],\"stream\":")).unwrap();
            assert_eq!(pair[0][..end], pair[1][..end], "{wire:?}");
        }
        // Nothing is sent twice: each turn adds the answer and the next question.
        let counts: Vec<usize> = (0..3).map(|number| lab.items(number).len()).collect();
        assert_eq!(counts[1] - counts[0], 2);
        assert_eq!(counts[2] - counts[1], 2);
        let sent = [&first, &second, &third].map(|taken| taken.sent()[0]);
        assert_eq!(sent[0].1, 0);
        let end = bodies[1].find("],\"tools\":").or(bodies[1].find("],\"stream\":")).unwrap();
        assert_eq!(sent[2], (bodies[2].len() as u64, end as u64));
        let calls = lab.server.model_calls();
        assert_eq!(calls[0].header("session_id"), calls[2].header("session_id"));
        assert!(calls[0].header("authorization").unwrap().starts_with("[redacted"));
    }
}

#[tokio::test]
async fn only_changes_are_sent_and_only_after_the_earlier_messages() {
    let lab = Lab::new(ApiWire::Responses, Script::default()).await;
    let mut turn_input = lab.turn_input("One", None);
    turn_input.system = Some("You are Max.".to_owned());
    let first = take(lab.agent().start(turn_input)).await;

    lab.write("AGENTS.md", "Be thorough.\n");
    lab.write("sub/x", "");
    let mut turn_input = lab.turn_input("Two", Some(&first));
    turn_input.system = Some("You are Max, and tired.".to_owned());
    turn_input.cwd = lab.work().join("sub");
    let second = take(lab.agent().start(turn_input)).await;
    assert_eq!(second.story().last().unwrap(), "finished done");

    let (before, after) = (lab.items(0), lab.items(1));
    assert_eq!(before[..], after[..before.len()]);
    let added: Vec<String> = after[before.len() + 1..]
        .iter()
        .map(|item| format!("{}: {}", item["role"].as_str().unwrap(), item["content"][0]["text"]))
        .collect();
    let [told, instructions, environment, question] = &added[..] else { panic!("{added:#?}") };
    assert_eq!(told, "developer: \"You are Max, and tired.\"");
    assert!(instructions.contains("Be thorough.") && instructions.contains("/work/sub"));
    assert!(environment.contains("<environment_context>") && environment.contains("/work/sub"));
    assert_eq!(question, "user: \"Two\"");

    std::fs::remove_file(lab.work().join("AGENTS.md")).unwrap();
    let mut turn_input = lab.turn_input("Three", Some(&second));
    turn_input.system = Some("You are Max, and tired.".to_owned());
    turn_input.cwd = lab.work().join("sub");
    let third = take(lab.agent().start(turn_input)).await;
    assert!(third.story().contains(&"warning thread.text-withdrawn".to_owned()));
    assert_eq!(lab.items(2).len(), after.len() + 2);
}

#[tokio::test]
async fn a_chat_server_that_knows_no_developer_is_spoken_to_by_the_system() {
    let mut lab = Lab::new(ApiWire::Chat, Script::default()).await;
    let roles = |lab: &Lab, number: usize| {
        let roles = lab.items(number).into_iter().map(|it| it["role"].as_str().unwrap().to_owned());
        roles.collect::<Vec<_>>()
    };
    lab.say("Hello", None).await;
    assert_eq!(roles(&lab, 0)[..2], ["system", "developer"]);
    lab.api.developer_role = convoke_agent::config::ApiDeveloperRole::System;
    lab.say("Hello", None).await;
    assert_eq!(roles(&lab, 1)[..2], ["system", "system"]);
}

#[tokio::test]
async fn another_model_is_announced_to_it() {
    let lab = Lab::new(ApiWire::Responses, Script::default()).await;
    let first = lab.say("One", None).await;
    let mut turn_input = lab.turn_input("Two", Some(&first));
    turn_input.model = Some("other-model".to_owned());
    take(lab.agent().start(turn_input)).await;
    assert!(lab.bodies()[1].contains("<model_switch>"));
    assert!(lab.bodies()[1].starts_with("{\"model\":\"other-model\""));
}

#[tokio::test]
async fn a_turn_that_fails_leaves_the_thread_as_it_was() {
    for wire in WIRES {
        let script = Script::new([
            Answer::say("One."),
            Answer::error(401),
            Answer::error(400),
            Answer::say("Two."),
        ]);
        let lab = Lab::new(wire, script).await;
        let first = lab.say("First", None).await;
        let lines = lab.lines(&first).await;
        let refused = lab.say("Second", Some(&first)).await;
        assert_eq!(reason(&refused.outcome.verdict), Some(FailureReason::Auth));
        assert_eq!(refused.story(), ["started", "finished failed"]);
        let wrong = lab.say("Second", Some(&refused)).await;
        assert_eq!(reason(&wrong.outcome.verdict), Some(FailureReason::Request));
        assert_eq!(lab.lines(&first).await, lines);
        let second = lab.say("Second", Some(&first)).await;
        assert_eq!(second.reply(), "Two.");
        let bodies = lab.bodies();
        assert!(bodies[1] == bodies[2] && bodies[2] == bodies[3], "the same request each time");
    }
}

#[tokio::test]
async fn a_first_turn_that_fails_leaves_no_thread() {
    let lab = Lab::new(ApiWire::Chat, Script::new([Answer::error(403)])).await;
    let failed = lab.say("Hello", None).await;
    assert_eq!(failed.outcome.resume, None);
}

#[tokio::test]
async fn attempts_that_fail_are_shown() {
    let cut = Reply::default().say("This is lo").end(End::Cut);
    let script = Script::new([Answer::error(503), cut.into(), Answer::say("Here.")]);
    let lab = Lab::new(ApiWire::Responses, script).await;
    let taken = lab.say("Hello", None).await;
    let expected = ["started", "retry 1 Some(503)", "retry 2 None", "text Here.", "finished done"];
    assert_eq!(taken.story(), expected);
    assert_eq!(taken.reply(), "Here.");
}

#[tokio::test]
async fn a_cancelled_turn_ends_at_once_and_is_remembered_as_such() {
    for wire in WIRES {
        let hang = Reply::default().say("I am thin").end(End::Hang);
        let script = Script::new([Answer::say("One."), hang.into(), Answer::say("Three.")]);
        let lab = Lab::new(wire, script).await;
        let first = lab.say("First", None).await;
        let turn = lab.agent().start(lab.turn_input("Second", Some(&first)));
        assert!(lab.server.has_model_calls(2, TIMEOUT).await);
        turn.canceller().cancel();
        let second = take(turn).await;
        assert_eq!(second.outcome.verdict, Verdict::Cancelled);
        lab.say("Third", Some(&second)).await;
        let body = &lab.bodies()[2];
        let second = body.find("Second").unwrap();
        assert!(
            body[second..].find("<turn_aborted>").unwrap() < body[second..].find("Third").unwrap()
        );
    }
}

#[tokio::test]
async fn a_turn_that_is_cancelled_while_it_connects_has_sent_nothing() {
    // A listener that completes no handshake.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut lab = Lab::new(ApiWire::Responses, Script::default()).await;
    lab.api.base_url = Some(format!("https://{}/v1", listener.local_addr().unwrap()));
    let turn = lab.agent().start(lab.turn_input("Hello", None));
    let canceller = turn.canceller();
    let taken = tokio::spawn(take(turn));
    let _connection = listener.accept().await.unwrap();
    canceller.cancel();
    let taken = taken.await.unwrap();
    assert_eq!(taken.outcome.verdict, Verdict::Withdrawn);
    assert!(!taken.outcome.verdict.is_sent());
    assert_eq!(taken.outcome.verdict.to_string(), "cancelled");
    let stored = lab.store.requests(&taken.thread()).await.unwrap();
    assert_eq!(stored[0].outcome.end, Some(RequestEnd::Unsent));
}

#[tokio::test]
async fn a_turn_that_takes_too_long_ends_and_leaves_nothing() {
    let hang = Reply::default().end(End::Hang);
    let lab = Lab::new(ApiWire::Chat, Script::new([Answer::say("One."), hang.into()])).await;
    let first = lab.say("First", None).await;
    let lines = lab.lines(&first).await;
    let mut turn_input = lab.turn_input("Second", Some(&first));
    turn_input.limits.turn = Duration::from_millis(300);
    let late = take(lab.agent().start(turn_input)).await;
    assert_eq!(late.outcome.verdict, Verdict::TimedOut);
    assert_eq!(lab.lines(&first).await, lines);
}

#[tokio::test]
async fn an_answer_that_stops_early_is_kept_and_reported() {
    for (end, expected) in
        [(End::MaxTokens, FailureReason::OutputFull), (End::Refused, FailureReason::Refused)]
    {
        for wire in WIRES {
            let reply = Reply::default().say("So far").end(end);
            let lab = Lab::new(wire, Script::new([reply.into()])).await;
            let taken = lab.say("Hello", None).await;
            assert_eq!(reason(&taken.outcome.verdict), Some(expected));
            assert_eq!(taken.outcome.reply, "So far");
            lab.say("Go on", Some(&taken)).await;
            assert!(lab.bodies()[1].contains("So far"));
        }
    }
}

#[tokio::test]
async fn images_go_to_the_model_with_the_prompt() {
    for wire in WIRES {
        let lab = Lab::new(wire, Script::default()).await;
        let mut turn_input = lab.turn_input("What is a.png?", None);
        turn_input.images = vec![Image::new("a.png", "iVBORw0KGgo=").unwrap()];
        take(lab.agent().start(turn_input)).await;
        assert!(lab.bodies()[0].contains("\"data:image/png;base64,iVBORw0KGgo=\""), "{wire:?}");
    }
}

#[tokio::test]
async fn an_answer_of_nothing_is_no_answer() {
    for wire in WIRES {
        let nothing = || Answer::from(Reply::default());
        let lab = Lab::new(wire, Script::new([nothing()])).await;
        let taken = lab.say("Hello", None).await;
        let told = taken.outcome.verdict.to_string();
        assert_eq!(told, "failed: ended early: the response is empty", "{wire:?}");
    }
}

#[tokio::test]
async fn an_answer_without_text_is_reported() {
    for wire in WIRES {
        let answers = [Reply::default().say(" \n"), Reply::default().think("Hm.").say(" ")];
        let lab = Lab::new(wire, Script::new(answers.map(Answer::from))).await;
        for _ in 0..2 {
            let taken = lab.say("Hello", None).await;
            assert_eq!(taken.outcome.verdict, Verdict::Done, "{wire:?}");
            let codes: Vec<_> = taken.outcome.diagnostics.iter().map(|it| it.code.name()).collect();
            assert_eq!(codes, ["agent.reply-empty"], "{wire:?}");
        }
    }
}

#[tokio::test]
async fn a_missing_thread_is_replaced_with_a_diagnostic() {
    let lab = Lab::new(ApiWire::Chat, Script::default()).await;
    let first = lab.say("One", None).await;
    let agent = lab.agent_with(Arc::<MemoryThreadStore>::default());
    let anew = take(agent.start(lab.turn_input("Two", Some(&first)))).await;
    assert_eq!(anew.story()[0], "warning agent.session-anew");
    assert_ne!(anew.thread(), first.thread());
}

#[tokio::test]
async fn a_member_of_a_session_keeps_to_its_own_thread() {
    let script = Script::new([Answer::error(401), Answer::say("One."), Answer::say("Two.")]);
    let mut lab = Lab::new(ApiWire::Responses, script).await;
    lab.thread = ThreadId::parse("session-max");
    // The coordinator names no thread, and retries failed turns.
    lab.say("First", None).await;
    lab.say("First", None).await;
    let second = lab.say("Second", None).await;
    assert_eq!(second.thread().as_str(), "session-max");
    assert_eq!(second.story()[0], "started");
    assert!(lab.bodies()[0] == lab.bodies()[1] && lab.bodies()[2].contains("One."));
}

#[tokio::test]
async fn settings_that_cannot_work_are_reported_before_anything_is_sent() {
    let lab = Lab::new(ApiWire::Chat, Script::default()).await;
    let cases: [(Change, FailureReason, &str); 4] = [
        (|api| api.base_url = None, FailureReason::Usage, "`base-url` is not set"),
        (|api| api.base_url = Some("nonsense".to_owned()), FailureReason::Usage, "not an address"),
        (|api| api.key_env = Some("MISSING".to_owned()), FailureReason::SignedOut, "`MISSING`"),
        (
            |api| api.base_url = Some("http://a:hunter2@h".to_owned()),
            FailureReason::Usage,
            "contains credentials",
        ),
    ];
    for (change, expected, words) in cases {
        let mut wrong = Lab::new(ApiWire::Chat, Script::default()).await;
        change(&mut wrong.api);
        let taken = wrong.say("Hello", None).await;
        assert_eq!(reason(&taken.outcome.verdict), Some(expected));
        let told = taken.outcome.verdict.to_string();
        assert!(told.contains(words) && !told.contains("hunter2"), "{told}");
    }
    assert!(lab.server.requests().is_empty());
}

#[tokio::test]
async fn a_project_that_is_not_trusted_cannot_have_other_files_read() {
    let lab = Lab::new(ApiWire::Responses, Script::default()).await;
    let link = |to: &str, name: &str| {
        let path = lab.work().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = std::fs::remove_file(&path);
        std::os::unix::fs::symlink(to, path).unwrap();
    };
    std::fs::create_dir_all(lab.folder.path().join("outside/stolen")).unwrap();
    std::fs::write(lab.folder.path().join("outside/secret.md"), "The secret.\n").unwrap();
    let skill = "---\nname: stolen\ndescription: stolen words\n---\n";
    std::fs::write(lab.folder.path().join("outside/stolen/SKILL.md"), skill).unwrap();
    lab.write("docs/inside.md", "From inside.\n");
    lab.write("deep/er/x", "");
    link("../outside/secret.md", "AGENTS.md");
    link("../../docs/inside.md", "deep/er/AGENTS.md");
    link("../../outside", ".agents/skills");
    link("../../outside/stolen", ".codex/skills/stolen");

    let mut turn_input = lab.turn_input("Hello", None);
    turn_input.cwd = lab.work().join("deep/er");
    let taken = take(lab.agent().start(turn_input.clone())).await;
    let body = &lab.bodies()[0];
    assert!(body.contains("From inside.") && !body.contains("The secret."));
    assert!(!body.contains("stolen words"), "{body}");
    let told: Vec<_> = taken.outcome.diagnostics.iter().map(|it| it.message.as_str()).collect();
    let document: Vec<_> = told.iter().filter(|it| it.contains("work/AGENTS.md")).collect();
    assert!(
        matches!(document[..], [one] if one.contains("AGENTS.md is a link out of")),
        "it is told once, and truly: {told:?}"
    );
    assert!(taken.story().contains(&"warning project-file.outside".to_owned()));

    // This also holds for a directory entered by another name, or without a repository.
    std::fs::remove_dir_all(lab.work().join(".git")).unwrap();
    std::os::unix::fs::symlink("work", lab.folder.path().join("alias")).unwrap();
    for name in ["work", "alias"] {
        let mut turn_input = lab.turn_input("Hello", None);
        turn_input.cwd = lab.folder.path().join(name);
        take(lab.agent().start(turn_input)).await;
        let body = lab.bodies().pop().unwrap();
        assert!(!body.contains("The secret.") && !body.contains("stolen words"), "{name}: {body}");
    }
    std::fs::create_dir(lab.work().join(".git")).unwrap();

    turn_input.trust = Trust::Trusted;
    let taken = take(lab.agent().start(turn_input)).await;
    assert!(lab.bodies().pop().unwrap().contains("The secret."));
    assert!(taken.outcome.diagnostics.is_empty(), "{:?}", taken.outcome.diagnostics);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_link_to_a_file_of_the_kernel_is_read_in_no_project() {
    let lab = Lab::new(ApiWire::Responses, Script::default()).await;
    std::fs::remove_file(lab.work().join("AGENTS.md")).unwrap();
    std::os::unix::fs::symlink("/proc/self/environ", lab.work().join("AGENTS.md")).unwrap();
    for trust in [Trust::Trusted, Trust::Untrusted] {
        let mut turn_input = lab.turn_input("Hello", None);
        turn_input.trust = trust;
        let taken = take(lab.agent().start(turn_input)).await;
        let body = lab.bodies().pop().unwrap();
        // Cargo sets it for every test.
        assert!(!body.contains("CARGO_PKG_NAME"), "{trust:?}: {body}");
        let codes: Vec<_> =
            taken.outcome.diagnostics.iter().map(|it| it.code.to_string()).collect();
        assert_eq!(codes, ["project-file.kernel"], "{trust:?}");
    }
}

#[tokio::test]
async fn a_secret_of_the_environment_is_in_no_request_and_no_line_of_the_store() {
    const TOKEN: &str = "tr0ub4dor-of-the-deployment";
    let said = Answer::say(format!("It is {TOKEN}."));
    let mut lab = Lab::new(ApiWire::Responses, Script::new([said])).await;
    lab.env.push(("DEPLOY_TOKEN".into(), TOKEN.into()));
    lab.write("AGENTS.md", &format!("Deploy with {TOKEN}.\n"));
    let mut turn_input = lab.turn_input(&format!("Is {TOKEN} right?"), None);
    turn_input.system = Some(format!("You know {TOKEN}."));
    turn_input.trust = Trust::Trusted;
    let taken = take(lab.agent().start(turn_input)).await;
    let kept = lab.store.records(&taken.thread());
    assert_eq!(kept[0].texts.body, lab.bodies()[0], "what is stored is what was sent");
    let all = format!("{:?} {kept:?} {:?}", lab.bodies(), lab.lines(&taken).await);
    assert!(!all.contains(TOKEN), "{all}");
    for clean in ["Deploy with [redacted].", "Is [redacted] right?", "You know [redacted]."] {
        assert!(all.contains(clean), "{clean}: {all}");
    }
}

#[tokio::test]
async fn the_key_is_in_no_event_whatever_its_variable_is_called() {
    let said = Reply::default().say("You use s3cr3t, I see.");
    let mut lab = Lab::new(ApiWire::Chat, Script::new([said.into()])).await;
    lab.env.push(("PLAIN_NAME".into(), "s3cr3t".into()));
    lab.api.key_env = Some("PLAIN_NAME".to_owned());
    let taken = lab.say("Is s3cr3t my key?", None).await;
    let kept = lab.store.records(&taken.thread());
    assert!(!kept[0].meta.redacted, "it was not even sent");
    let all = format!("{:?} {kept:?} {:?}", lab.bodies(), lab.lines(&taken).await);
    assert!(!all.contains("s3cr3t") && all.contains("Is [redacted] my key?"), "{all}");
}

#[tokio::test]
async fn not_even_a_directory_that_is_called_like_the_key_brings_it_into_a_request() {
    let script = ["One.", "Two."].map(Answer::say);
    let lab = Lab::new(ApiWire::Responses, Script::new(script)).await;
    let mut last = None;
    for question in ["First", "Second"] {
        let mut turn_input = lab.turn_input(question, last.as_ref());
        turn_input.cwd = lab.work().join(KEY);
        std::fs::create_dir_all(&turn_input.cwd).unwrap();
        last = Some(take(lab.agent().start(turn_input)).await);
    }
    let kept = lab.store.records(&last.unwrap().thread());
    let kept: Vec<_> = kept.into_iter().map(|request| request.texts.body).collect();
    assert_eq!(kept, lab.bodies());
    assert!(!kept.concat().contains(KEY));
}

/// A store in memory whose appends the test controls.
struct TestStore {
    store: Arc<MemoryThreadStore>,
    /// One permit per append; appending fails once it is closed.
    leave: Semaphore,
    /// Whether no request can be stored.
    refuses_requests: bool,
}

impl ThreadStore for TestStore {
    fn thread_lines<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Vec<ThreadLine>> {
        self.store.thread_lines(thread)
    }

    fn append_lines<'s>(&'s self, append: &'s ThreadAppend) -> Stored<'s, ()> {
        Box::pin(async move {
            let _leave = self.leave.acquire().await.map_err(|_| Box::from("no space left"))?;
            self.store.append_lines(append).await
        })
    }

    fn add_request<'s>(
        &'s self,
        record: &'s RequestRecord,
        before: Option<&'s RequestTexts>,
    ) -> Stored<'s, u64> {
        if self.refuses_requests {
            let full: Box<dyn std::error::Error + Send + Sync> = Box::from("no space left");
            return Box::pin(async { Err(full.into()) });
        }
        self.store.add_request(record, before)
    }

    fn set_outcome<'s>(
        &'s self,
        thread: &'s ThreadId,
        number: u64,
        outcome: &'s RequestOutcome,
    ) -> Stored<'s, ()> {
        self.store.set_outcome(thread, number, outcome)
    }

    fn requests<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Vec<RequestRecord<()>>> {
        self.store.requests(thread)
    }

    fn request_texts<'s>(&'s self, thread: &'s ThreadId, number: u64) -> Stored<'s, RequestTexts> {
        self.store.request_texts(thread, number)
    }

    fn last_request<'s>(&'s self, thread: &'s ThreadId) -> Stored<'s, Option<RequestRecord>> {
        self.store.last_request(thread)
    }

    fn limit_texts<'s>(&'s self, thread: &'s ThreadId, max_bytes: u64) -> Stored<'s, u64> {
        self.store.limit_texts(thread, max_bytes)
    }
}

#[tokio::test]
async fn a_turn_that_cannot_be_stored_is_not_done() {
    let lab = Lab::new(ApiWire::Chat, Script::default()).await;
    let full =
        TestStore { store: Arc::default(), leave: Semaphore::new(0), refuses_requests: false };
    full.leave.close();
    let agent = lab.agent_with(Arc::new(full));
    let taken = take(agent.start(lab.turn_input("Hello", None))).await;
    let told = taken.outcome.verdict.to_string();
    assert!(told.contains("no space left"), "{told}");
    assert_eq!(taken.outcome.reply, Script::DEFAULT_TEXT);
}

#[tokio::test]
async fn a_request_that_cannot_be_stored_is_not_sent() {
    let lab = Lab::new(ApiWire::Chat, Script::default()).await;
    let full =
        TestStore { store: Arc::default(), leave: Semaphore::new(1), refuses_requests: true };
    let agent = lab.agent_with(Arc::new(full));
    let taken = take(agent.start(lab.turn_input("Hello", None))).await;
    let verdict = taken.outcome.verdict.to_string();
    assert!(verdict.contains("no space left"), "{verdict}");
    assert_eq!(lab.bodies(), [""; 0]);
}

#[tokio::test]
async fn two_turns_at_once_on_one_thread_cannot_mix() {
    let script = Script::new(["One.", "Slow.", "Quick."].map(Answer::say));
    let lab = Lab::new(ApiWire::Chat, script).await;
    let first = lab.say("First", None).await;
    let slow_store = Arc::new(TestStore {
        store: Arc::clone(&lab.store),
        leave: Semaphore::new(0),
        refuses_requests: false,
    });
    let slow = lab.agent_with(slow_store.clone()).start(lab.turn_input("Slow", Some(&first)));
    assert!(lab.server.has_model_calls(2, TIMEOUT).await);
    let quick = lab.say("Quick", Some(&first)).await;
    assert_eq!(quick.reply(), "Quick.");
    slow_store.leave.add_permits(1);
    let slow = take(slow).await;
    assert!(slow.outcome.verdict.to_string().contains("changed by another program"));
}
