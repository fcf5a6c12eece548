//! The context manager, case by case, and its log.

#![expect(clippy::expect_used, reason = "this is a test")]

mod log;

use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, channel};

use convoke_core::marker::TextPolicy;
use convoke_core::{
    AgentContext, AgentType, AssemblerInput, AssemblerOutput, BudgetTooSmall, ContextAssembler,
    ContextManager, ContextManagerOptions, ContextOptions, ContextProvider, Hooks,
    MAX_TEAM_TASK_BYTES, MessageLimit, Millis, NewMessage, Speaker, SpeakerType, Visibility,
};
use serde_json::{Value, json};

use self::log::{Level, logged};
use convoke_core::diagnostics;

fn human(content: &str) -> NewMessage {
    NewMessage::new(Speaker::new("kailai", "Kailai", SpeakerType::Human), content)
}

fn ai(name: &str, content: &str) -> NewMessage {
    NewMessage::new(Speaker::new(name, name, SpeakerType::Ai), content)
}

fn manager(messages: impl IntoIterator<Item = NewMessage>) -> ContextManager {
    manager_with(ContextManagerOptions::default(), messages)
}

fn manager_with(
    options: ContextManagerOptions,
    messages: impl IntoIterator<Item = NewMessage>,
) -> ContextManager {
    let mut manager = ContextManager::new(options, Hooks::default());
    for message in messages {
        manager.add_message(message);
    }
    manager
}

/// The texts of a context, oldest first.
fn texts(input: &AssemblerInput<'_>) -> Vec<String> {
    input.context_messages.iter().map(|message| message.content.to_string()).collect()
}

fn window(size: usize) -> AgentContext<'static> {
    AgentContext { window_size_override: Some(size), ..AgentContext::default() }
}

/// Creates a manager whose hooks record their calls.
fn observed() -> (ContextManager, Receiver<String>) {
    let (events, received) = channel();
    let (added, changed) = (events.clone(), events);
    let hooks = Hooks {
        message_added: Some(Box::new(move |message| {
            added.send(format!("added {}", message.id)).expect("a receiver");
        })),
        team_task_changed: Some(Box::new(move |task| {
            changed.send(format!("task {task:?}")).expect("a receiver");
        })),
        limit: None,
    };
    (ContextManager::new(ContextManagerOptions::default(), hooks), received)
}

// 8.1 Messages

#[test]
fn an_added_message_is_stored_and_returned_under_a_new_id() {
    let mut manager = ContextManager::default();
    let ids: Vec<String> =
        (0..3).map(|_| manager.add_message(human("Hi")).id.to_string()).collect();
    assert_eq!(ids, ["msg-1", "msg-2", "msg-3"]);
    let stored: Vec<&str> = manager.messages().map(|message| message.id.as_str()).collect();
    assert_eq!(stored, ids);
}

#[test]
fn a_message_that_cannot_be_stored_is_refused_in_the_specifications_words() {
    let speaker = json!({"roleId": "a", "roleName": "A", "type": "human"});
    let cases = [
        (json!(null), "Message cannot be null or undefined"),
        (json!(false), "Message cannot be null or undefined"),
        (json!({"content": 123, "speaker": speaker}), "Message content must be a string"),
        (json!({"speaker": speaker}), "Message content must be a string"),
        (json!({"content": "x"}), "Message speaker is required"),
        (json!({"content": "x", "speaker": null}), "Message speaker is required"),
        (json!({"content": "x", "speaker": {}}), "Message speaker.roleId is required"),
        (json!({"content": "x", "speaker": {"roleId": ""}}), "Message speaker.roleId is required"),
    ];
    for (message, why) in cases {
        let refused = NewMessage::from_json(message.clone()).expect_err("refused");
        assert_eq!(refused.to_string(), why, "{message}");
    }
}

#[test]
fn an_id_that_the_caller_gives_is_ignored() {
    let message = json!({"id": "mine", "content": "x", "speaker": {"roleId": "a"}});
    let mut manager = ContextManager::default();
    let message = NewMessage::from_json(message).expect("a message");
    assert_eq!(manager.add_message(message).id.as_str(), "msg-1");
}

#[test]
fn the_hook_is_called_with_each_message() {
    let (mut manager, events) = observed();
    manager.add_message(human("one"));
    manager.add_message(human("two"));
    drop(manager);
    assert_eq!(events.iter().collect::<Vec<_>>(), ["added msg-1", "added msg-2"]);
}

#[test]
fn there_is_no_message_and_no_latest_one_at_first() {
    let manager = ContextManager::default();
    assert_eq!(manager.messages().count(), 0);
    assert_eq!(manager.latest_message(), None);
}

#[test]
fn the_latest_message_is_the_last_one() {
    let manager = manager([human("one"), human("two")]);
    assert_eq!(manager.latest_message().expect("a message").content, "two");
}

#[test]
fn no_marker_is_applied_when_a_message_is_added() {
    let text = "[TEAM_TASK: ship] [NEXT: max] go";
    let manager = manager([human(text)]);
    assert_eq!(manager.latest_message().expect("a message").content, text);
    assert_eq!(manager.team_task(), None);
}

#[test]
fn messages_beyond_the_limit_go_to_the_archive() {
    let (archived, received) = channel();
    let limit = MessageLimit {
        keep: NonZeroUsize::new(2).expect("not 0"),
        archive: Box::new(move |message| archived.send(message.id).expect("a receiver")),
    };
    let hooks = Hooks { limit: Some(limit), ..Hooks::default() };
    let mut limited = ContextManager::new(ContextManagerOptions::default(), hooks);
    for text in ["one", "two", "three"] {
        limited.add_message(human(text));
    }
    let held = |manager: &ContextManager| -> Vec<String> {
        manager.messages().map(|message| message.id.to_string()).collect()
    };
    assert_eq!(held(&limited), ["msg-2", "msg-3"]);

    // An import that is longer than the limit is brought down to it at once.
    let longer = manager((0..5).map(|n| human(&n.to_string())));
    limited.import_snapshot(json!(longer.export_snapshot(Millis(0)))).expect("a snapshot");
    assert_eq!(held(&limited), ["msg-4", "msg-5"]);
    drop(limited);
    let archived: Vec<String> = received.iter().map(|id| id.to_string()).collect();
    assert_eq!(archived, ["msg-1", "msg-1", "msg-2", "msg-3"]);
}

// 8.2 The team task

#[test]
fn the_team_task_is_none_until_it_is_set() {
    let mut manager = ContextManager::default();
    assert_eq!(manager.team_task(), None);
    assert_eq!(manager.set_team_task("Review"), None);
    assert_eq!(manager.team_task(), Some("Review"));
}

#[test]
fn a_team_task_over_5_kib_is_cut_at_a_character_boundary() {
    let cases = [
        ("x".repeat(5120), 5120),
        ("x".repeat(5121), 5120),
        ("x".repeat(5119) + "é", 5119),
        ("安".repeat(2000), 5118),
        ("🚀".repeat(1281), 5120),
        ("x".to_owned() + &"🚀".repeat(1280), 5117),
    ];
    for (task, kept) in cases {
        let mut manager = ContextManager::default();
        let cut = manager.set_team_task(&task);
        let stored = manager.team_task().expect("a task");
        assert_eq!(stored.len(), kept);
        assert!(task.starts_with(stored));
        assert_eq!(cut.is_some(), task.len() > MAX_TEAM_TASK_BYTES);
        if let Some(cut) = cut {
            assert_eq!(cut.code, diagnostics::TEAM_TASK_TRUNCATED);
            assert_eq!(cut.bytes, Some((task.len() - kept) as u64));
        }
    }
}

#[test]
fn the_hook_is_called_whenever_the_task_is_set_or_cleared() {
    let (mut manager, events) = observed();
    manager.set_team_task("one");
    manager.set_team_task("one");
    manager.clear();
    drop(manager);
    let expected = [r#"task Some("one")"#, r#"task Some("one")"#, "task None"];
    assert_eq!(events.iter().collect::<Vec<_>>(), expected);
}

// 8.3 Context for an agent

#[test]
fn without_messages_the_context_is_empty() {
    let mut manager = ContextManager::default();
    manager.set_team_task("Review");
    let input = manager.context_for_agent("max", AgentContext::default());
    let expected = json!({
        "contextMessages": [], "currentMessage": "", "teamTask": "Review",
        "systemInstruction": null, "instructionFileText": null, "maxBytes": 786_432,
    });
    assert_eq!(json!(input), expected);
}

#[test]
fn the_window_limits_the_context_and_can_be_overridden() {
    let options = ContextManagerOptions {
        context: ContextOptions { window: 3, ..ContextOptions::default() },
        agent_windows: [("sarah".to_owned(), 1)].into(),
    };
    let manager = manager_with(options, (0..8).map(|n| human(&n.to_string())));
    let cases: [(&str, AgentContext<'_>, &[&str]); 6] = [
        ("max", AgentContext::default(), &["4", "5", "6"]),
        ("sarah", AgentContext::default(), &["6"]),
        ("sarah", window(2), &["5", "6"]),
        ("max", window(0), &[]),
        ("max", window(7), &["0", "1", "2", "3", "4", "5", "6"]),
        ("max", window(usize::MAX), &["0", "1", "2", "3", "4", "5", "6"]),
    ];
    for (agent, context, expected) in cases {
        let input = manager.context_for_agent(agent, context);
        assert_eq!(texts(&input), expected, "{agent} {context:?}");
        assert_eq!(input.current_message, "7");
    }
}

#[test]
fn markers_are_cleaned_from_the_context_and_from_the_current_message() {
    let messages =
        || [human("  do\n\n  it [NEXT: max]"), ai("max", "done [FROM: max][NEXT: sarah]")];
    let cases =
        [(TextPolicy::Preserve, "  do\n\n  it", "done"), (TextPolicy::Compat, "do\nit", "done")];
    for (text, context, current) in cases {
        let options = ContextOptions { text, ..ContextOptions::default() }.into();
        let manager = manager_with(options, messages());
        let input = manager.context_for_agent("sarah", AgentContext::default());
        assert_eq!(texts(&input), [context]);
        assert_eq!(input.current_message, current);
    }
}

#[test]
fn a_last_message_that_repeats_an_agents_is_left_out() {
    // (the earlier message, the message to answer, the expected context)
    let cases: [(NewMessage, NewMessage, &[&str]); 5] = [
        (ai("max", "done"), ai("max", "done"), &[]),
        (ai("max", "done [NEXT: a]"), ai("max", "done [NEXT: b]"), &[]),
        (ai("sarah", "done"), ai("max", "done"), &["done"]),
        (ai("max", "done"), ai("max", "Done"), &["done"]),
        (human("done"), human("done"), &["done"]),
    ];
    for (before, current, left) in cases {
        let manager = manager([before, current]);
        assert_eq!(texts(&manager.context_for_agent("x", AgentContext::default())), left);
    }
}

#[test]
fn a_repeated_message_is_found_by_its_id_too() {
    let message = |text: &str| {
        json!({"id": "msg-1", "content": text,
               "speaker": {"roleId": "max", "roleName": "Max", "type": "ai"}})
    };
    let snapshot = json!({"version": 1, "messages": [message("one"), message("two")]});
    let mut manager = ContextManager::default();
    let diagnostics = manager.import_snapshot(snapshot).expect("a snapshot");
    assert_eq!(diagnostics[0].code, diagnostics::SNAPSHOT_DUPLICATE_ID);
    assert!(texts(&manager.context_for_agent("x", AgentContext::default())).is_empty());
}

#[test]
fn the_window_is_applied_before_repeated_messages_are_left_out() {
    let manager = manager([human("1"), human("2"), ai("max", "3"), ai("max", "3")]);
    assert_eq!(texts(&manager.context_for_agent("x", window(2))), ["2"]);
}

#[test]
fn addressees_are_one_text() {
    let cases: [(&[&str], &str); 3] =
        [(&[], "all"), (&["max"], "max"), (&["max", "sarah", "carol"], "max, sarah, carol")];
    for (to, expected) in cases {
        let manager = manager([human("x").to(to.iter().copied()), human("y")]);
        let input = manager.context_for_agent("max", AgentContext::default());
        assert_eq!(input.context_messages[0].to.as_deref(), Some(expected));
    }
}

#[test]
fn instructions_and_budget_are_passed_on() {
    let options = ContextOptions { max_bytes: 1000, ..ContextOptions::default() }.into();
    let manager = manager_with(options, [human("x")]);
    let context = AgentContext {
        system_instruction: Some("You are Max."),
        instruction_file_text: Some("Be brief."),
        ..AgentContext::default()
    };
    let input = manager.context_for_agent("max", context);
    assert_eq!(input.system_instruction.as_deref(), Some("You are Max."));
    assert_eq!(input.instruction_file_text.as_deref(), Some("Be brief."));
    assert_eq!(input.max_bytes, 1000);
}

#[test]
fn an_earlier_message_is_answered_with_what_came_before_it_and_its_other_replies() {
    let manager = manager([
        human("question"),
        human("aside"),
        ai("max", "answer").in_reply_to("msg-1"),
        ai("sarah", "another").in_reply_to("msg-1"),
        human("later"),
    ]);
    let input = manager.context_for_reply(&"msg-1".into(), "carol", AgentContext::default());
    let input = input.expect("a known message");
    assert_eq!(input.current_message, "question");
    assert_eq!(texts(&input), ["answer", "another"]);
    let unknown = manager.context_for_reply(&"msg-9".into(), "carol", AgentContext::default());
    assert_eq!(unknown.expect_err("unknown").to_string(), "no message has the id `msg-9`");
}

#[test]
fn a_member_may_see_only_what_concerns_it() {
    let options =
        ContextOptions { visibility: Visibility::Addressed, ..ContextOptions::default() }.into();
    let messages = [
        human("to all"),
        human("to max").to(["Max"]),
        human("to sarah").to(["sarah"]),
        ai("max", "by max").to(["sarah"]),
        human("now"),
    ];
    let manager = manager_with(options, messages);
    let max = manager.context_for_agent("max", AgentContext::default());
    assert_eq!(texts(&max), ["to all", "to max", "by max"]);
    let carol = manager.context_for_agent("carol", AgentContext::default());
    assert_eq!(texts(&carol), ["to all"]);
}

// 8.4 Lifecycle

#[test]
fn clearing_forgets_messages_and_task_and_begins_ids_again() {
    let mut manager = manager([human("one"), human("two")]);
    manager.set_team_task("Review");
    manager.clear();
    assert!(manager.history().is_empty());
    assert_eq!(manager.team_task(), None);
    assert_eq!(manager.add_message(human("three")).id.as_str(), "msg-1");
}

#[test]
fn a_snapshot_holds_everything_and_is_restored() {
    let mut manager = manager([human("one"), ai("max", "two").in_reply_to("msg-1").to(["kailai"])]);
    manager.set_team_task("Review");
    let snapshot = json!(manager.export_snapshot(Millis(1_700_000_000_000)));
    let expected = json!({
        "messages": [
            {"id": "msg-1", "content": "one",
             "speaker": {"roleId": "kailai", "roleName": "Kailai", "type": "human"}},
            {"id": "msg-2", "content": "two",
             "speaker": {"roleId": "max", "roleName": "max", "type": "ai"},
             "routing": {"resolvedAddressees": ["kailai"]}, "inReplyTo": "msg-1"},
        ],
        "teamTask": "Review", "timestamp": 1_700_000_000_000_i64, "version": 1,
    });
    assert_eq!(snapshot, expected);

    let (mut restored, events) = observed();
    assert_eq!(restored.import_snapshot(snapshot.clone()), Ok(Vec::new()));
    assert_eq!(json!(restored.export_snapshot(Millis(1_700_000_000_000))), snapshot);
    assert_eq!(restored.add_message(human("three")).id.as_str(), "msg-3");
    drop(restored);
    let expected = [r#"task Some("Review")"#, "added msg-3"];
    assert_eq!(events.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn the_next_id_follows_the_largest_one_that_was_imported() {
    let message = |id: &str| json!({"id": id, "content": "", "speaker": {"roleId": "a"}});
    let cases: [(&[&str], &str); 5] = [
        (&[], "msg-1"),
        (&["msg-7", "msg-3"], "msg-8"),
        (&["other", "msg-x", "msg-", "msg-2b"], "msg-1"),
        (&["msg-007"], "msg-8"),
        (&["msg-9007199254740991"], "msg-9007199254740992"),
    ];
    for (ids, next) in cases {
        let messages: Vec<Value> = ids.iter().map(|id| message(id)).collect();
        let mut manager = ContextManager::default();
        manager.import_snapshot(json!({"version": 1, "messages": messages})).expect("a snapshot");
        assert_eq!(manager.add_message(human("")).id.as_str(), next, "{ids:?}");
    }
}

#[test]
fn a_malformed_snapshot_is_refused_whole_with_its_reason() {
    let message = json!({"id": "m", "content": "x", "speaker": {"roleId": "a"}});
    let cases = [
        (json!(null), "the snapshot must be an object"),
        (json!({}), "`version` must be the number 1, not null"),
        (json!({"version": "1"}), "`version` must be the number 1, not \"1\""),
        (json!({"version": 2}), "`version` must be the number 1, not 2"),
        (json!({"version": 1}), "`messages` must be a list"),
        (
            json!({"version": 1, "messages": [message, {"id": "n", "speaker": {"roleId": "a"}}]}),
            "`messages[1]`: Message content must be a string",
        ),
        (
            json!({"version": 1, "messages": [{"content": "", "speaker": {"roleId": "a"}}]}),
            "`messages[0]`: Message `id` must be a string",
        ),
        (
            json!({"version": 1, "messages": [], "teamTask": 5}),
            "`teamTask` must be a string or null",
        ),
    ];
    let (mut manager, events) = observed();
    manager.add_message(human("kept"));
    manager.set_team_task("kept");
    let before = json!(manager.export_snapshot(Millis(0)));
    for (snapshot, why) in cases {
        let refused = manager.import_snapshot(snapshot).expect_err("refused");
        assert_eq!(refused.to_string(), "Invalid snapshot format");
        assert_eq!(refused.reason.to_string(), why);
        assert_eq!(json!(manager.export_snapshot(Millis(0))), before);
    }
    drop(manager);
    assert_eq!(events.iter().count(), 2, "a refusal calls no hook");
}

#[test]
fn a_provider_is_enough_to_hold_a_conversation() {
    fn converse(provider: &mut dyn ContextProvider) -> usize {
        provider.add_message(human("Hi"));
        provider.set_team_task("Review");
        let snapshot = json!(provider.export_snapshot(Millis(0)));
        provider.clear();
        provider.import_snapshot(snapshot).expect("our own snapshot");
        assert_eq!(provider.team_task(), Some("Review"));
        assert_eq!(provider.latest_message().map(|m| m.content.as_str()), Some("Hi"));
        assert_eq!(
            provider.context_for_agent("max", AgentContext::default()).current_message,
            "Hi"
        );
        provider.messages().len()
    }
    assert_eq!(converse(&mut ContextManager::default()), 1);
}

// 8.5 Assemblers

#[test]
fn each_type_of_agent_has_its_assembler() {
    let manager = manager([human("Hi")]);
    let context = AgentContext { system_instruction: Some("S"), ..AgentContext::default() };
    let input = manager.context_for_agent("max", context);
    let cases = [
        ("claude", "[MESSAGE]\nHi", Some("S")),
        ("claude-code", "[MESSAGE]\nHi", Some("S")),
        ("Codex", "[SYSTEM]\nS\n\n[MESSAGE]\nHi", None),
        ("openai-codex", "[SYSTEM]\nS\n\n[MESSAGE]\nHi", None),
        ("gemini", "Instructions:\nS\n\nYour task:\nHi", None),
        ("google-gemini", "Instructions:\nS\n\nYour task:\nHi", None),
        ("plain", "S\n\nHi", None),
    ];
    for (agent_type, prompt, system) in cases {
        let output = manager.assemble_prompt(agent_type, &input).expect("there is room");
        assert_eq!((&*output.prompt, output.system_flag.as_deref()), (prompt, system));
        assert!(output.diagnostics.is_empty());
    }
}

#[test]
fn an_unknown_type_gets_plain_text_and_a_warning() {
    let manager = manager([human("Hi")]);
    let input = manager.context_for_agent("max", AgentContext::default());
    let output = manager.assemble_prompt("Frobnicator", &input).expect("there is room");
    assert_eq!(output.prompt, "Hi");
    assert_eq!(output.diagnostics[0].code, diagnostics::AGENT_UNKNOWN);
    assert_eq!(
        output.diagnostics[0].message,
        "[ContextManager] Unknown agentType \"Frobnicator\" (normalized: \"Frobnicator\"), \
         using PlainTextAssembler"
    );
}

#[test]
fn an_assembler_of_the_users_own_serves_its_type() {
    struct Shouting;

    impl ContextAssembler for Shouting {
        fn agent_type(&self) -> AgentType {
            AgentType::Other("shouting".to_owned())
        }

        fn assemble<'a>(
            &self,
            input: &'a AssemblerInput<'a>,
        ) -> Result<AssemblerOutput<'a>, BudgetTooSmall> {
            let mut output = convoke_core::assembler::PlainTextAssembler.assemble(input)?;
            output.prompt.make_ascii_uppercase();
            Ok(output)
        }
    }

    let mut manager = manager([human("Hi")]);
    manager.register_assembler(Box::new(Shouting));
    let input = manager.context_for_agent("max", AgentContext::default());
    let output = manager.assemble_prompt("shouting", &input).expect("there is room");
    assert_eq!((&*output.prompt, output.diagnostics.len()), ("HI", 0));
}

// 7 The log

#[test]
fn what_happens_is_logged_in_the_specifications_words() {
    let lines = logged(|| {
        let mut manager = manager([ai("max", "done"), ai("max", "done")]);
        manager.set_team_task(&"安".repeat(2000));
        let input = manager.context_for_agent("sarah", AgentContext::default());
        manager.assemble_prompt("frob", &input).expect("there is room");
        manager.assemble_prompt("plain", &input).expect("there is room");
    });
    let expected = [
        (Level::DEBUG, "[ContextManager] Message added: msg-1"),
        (Level::DEBUG, "[ContextManager] Message added: msg-2"),
        (
            Level::WARN,
            "[ContextManager] TeamTask exceeded 5KB limit (6000 bytes), truncated to 5118 bytes",
        ),
        (Level::DEBUG, "[ContextManager] Deduplicated context for AI→AI"),
        (
            Level::WARN,
            "[ContextManager] Unknown agentType \"frob\" (normalized: \"frob\"), \
             using PlainTextAssembler",
        ),
    ];
    assert_eq!(lines, expected.map(|(level, text)| (level, text.to_owned())));
}
