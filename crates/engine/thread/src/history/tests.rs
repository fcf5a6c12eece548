use std::borrow::Cow;

use convoke_core::ledger::{Rule, Source};

use super::{Entry, History, Origin, Section, SentItem, Sources, UserMessages, normalize};
use crate::item::{ContentItem, ResponseItem};
use crate::model::TruncationPolicy;

const POLICY: TruncationPolicy = TruncationPolicy::Bytes(1000);

fn history(items: &[serde_json::Value]) -> History {
    let mut history = History::default();
    for item in items {
        let item = ResponseItem::try_from(item.clone()).unwrap();
        history.record(Entry::from(item), POLICY, &mut Vec::new());
    }
    history
}

fn call(id: &str) -> serde_json::Value {
    serde_json::json!({"type": "function_call", "name": "f", "arguments": "{}", "call_id": id})
}

fn output(id: &str) -> serde_json::Value {
    serde_json::json!({"type": "function_call_output", "call_id": id, "output": "o"})
}

fn custom(id: &str) -> serde_json::Value {
    serde_json::json!({"type": "custom_tool_call", "call_id": id, "name": "p", "input": "i"})
}

fn user(text: &str) -> serde_json::Value {
    let part = serde_json::json!({"type": "input_text", "text": text});
    serde_json::json!({"type": "message", "role": "user", "content": [part]})
}

/// Returns whether a compaction takes an item without an origin for a message of the user.
fn is_users(item: &ResponseItem) -> bool {
    Entry::from(item.clone()).kept_text("PREFIX", UserMessages::ByOrigin).is_some()
}

fn sent(history: &History) -> Vec<String> {
    let sent = normalize(history.entries(), &mut Vec::new());
    let short = |item: &ResponseItem| match item {
        ResponseItem::FunctionCall(it) => format!("call {}", it.call_id),
        ResponseItem::CustomToolCall(it) => format!("custom {}", it.call_id),
        ResponseItem::FunctionCallOutput(it) => format!("output {}", it.call_id),
        ResponseItem::CustomToolCallOutput(it) => format!("custom output {}", it.call_id),
        other if is_users(other) => other.texts().collect(),
        _ => "other".to_owned(),
    };
    sent.iter().map(|it| short(&it.item)).collect()
}

#[test]
fn a_call_without_an_output_is_answered_right_after_it() {
    let history = history(&[call("a"), custom("b"), user("next"), output("a")]);
    let expected = ["call a", "custom b", "custom output b", "next", "output a"];
    assert_eq!(sent(&history), expected);
}

#[test]
fn an_output_without_a_call_of_its_kind_is_left_out() {
    let history = history(&[output("a"), custom("b"), output("b"), user("u")]);
    assert_eq!(sent(&history), ["custom b", "custom output b", "u"]);
}

#[test]
fn system_messages_unknown_items_and_snapshots_are_never_sent() {
    let system = serde_json::json!({"type": "message", "role": "system", "content": []});
    let ghost = serde_json::json!({"type": "ghost_snapshot", "ghost_commit": {"id": "x"}});
    let unknown = serde_json::json!({"type": "later_invention"});
    let history = history(&[system, ghost, unknown, user("u")]);
    assert_eq!(history.entries().len(), 2);
    assert_eq!(sent(&history), ["u"]);
}

#[test]
fn the_oldest_item_goes_with_its_partner() {
    let mut history = history(&[call("a"), user("u"), output("a"), call("b"), output("b")]);
    history.drop_oldest();
    assert_eq!(sent(&history), ["u", "call b", "output b"]);
}

#[test]
fn a_roll_back_cuts_before_a_real_user_message() {
    let items = [
        user("# AGENTS.md instructions for /r"),
        user("one"),
        user("<turn_aborted>\nx"),
        user("two"),
        user("<skill>\n"),
    ];
    let cases: [(usize, &[&str]); 4] = [
        (0, &["other", "one", "<turn_aborted>\nx", "two", "other"]),
        (1, &["other", "one", "<turn_aborted>\nx"]),
        (2, &["other"]),
        (9, &["other"]),
    ];
    for (count, expected) in cases {
        for users in [UserMessages::AsCodex, UserMessages::ByOrigin] {
            let mut history = history(&items);
            history.roll_back(count, users);
            assert_eq!(sent(&history), expected, "{count}");
        }
    }
}

#[test]
fn without_an_origin_injected_messages_are_distinguished_from_what_the_user_wrote() {
    let cases = [
        ("hello", true),
        ("", true),
        ("<user_instructions>old</user_instructions>", false),
        ("  <ENVIRONMENT_CONTEXT>", false),
        ("<skillful text", false),
        ("<user_shell_command>\nls", false),
        ("<user_action>", true),
    ];
    for (text, expected) in cases {
        let item = ResponseItem::user(text);
        assert_eq!(is_users(&item), expected, "{text}");
        for users in [UserMessages::AsCodex, UserMessages::ByOrigin] {
            assert_eq!(Entry::from(item.clone()).is_turn_start(users), expected, "{text}");
        }
    }
}

#[test]
fn an_origin_decides_who_wrote_a_message_whatever_its_text() {
    let texts = ["hello", "<skill>x", "<environment_context>", "<turn_aborted>", "PREFIX\nx"];
    for text in texts {
        for (section, is_kept, is_start) in [
            (Section::User, Some(Section::Kept), true),
            (Section::Kept, Some(Section::Kept), true),
            (Section::Tool, Some(Section::Kept), true),
            (Section::TurnAborted, Some(Section::TurnAborted), false),
            (Section::Skill, None, false),
            (Section::UserInstructions, None, false),
            (Section::Environment, None, false),
        ] {
            let entry = Entry::in_section(section, ResponseItem::user(text));
            let users = UserMessages::ByOrigin;
            let kept = entry.kept_text("PREFIX", users).map(|(section, _)| section);
            let is_turn_start = entry.is_turn_start(users);
            assert_eq!((kept, is_turn_start), (is_kept, is_start), "{section:?}: {text}");
        }
    }
}

#[test]
fn items_of_a_codex_session_are_recognised_and_the_ledger_says_so() {
    let user = |text: &str| ResponseItem::user(text);
    let developer = |text: &str| ResponseItem::developer(text.to_owned());
    let said = ResponseItem::message("assistant", vec![ContentItem::OutputText("Hi".to_owned())]);
    let cases = [
        (developer("<permissions instructions>\nRead.</permissions instructions>"), "permissions"),
        (developer("<collaboration_mode>plan</collaboration_mode>"), "collaboration-mode"),
        (developer("<personality_spec>kind</personality_spec>"), "personality"),
        (developer("<model_switch>\nnew</model_switch>"), "model-switch"),
        (developer("Be brief."), "developer-instructions"),
        (user("# AGENTS.md instructions for /r\n\n<INSTRUCTIONS>x"), "user-instructions"),
        (user("<environment_context>\n  <cwd>/r</cwd>"), "environment"),
        (user("<skill>\n<name>s</name>"), "skill"),
        (user("<turn_aborted>\nstopped"), "turn-aborted"),
        (user("PREFIXES are words"), "user"),
        (user("Hello"), "user"),
        (said, "model"),
        (ResponseItem::function_output("c".to_owned(), "x".to_owned()), "tool"),
    ];
    for (item, section) in cases {
        let origin = Cow::Owned(Origin::Codex);
        let sent = SentItem { item: Cow::Borrowed(&item), origin, is_restored: true };
        let (_, entry) = Sources::new(&sent, 3, "PREFIX").next(1).unwrap();
        assert_eq!(entry.section, section, "{item:?}");
        let recognised = Source::History { index: Some(3) };
        let is_recognised = entry.rule == Rule::Recognised && entry.source == recognised;
        assert_eq!(is_recognised, !["model", "tool"].contains(&section), "{entry:?}");
    }
}

#[test]
fn the_prefix_of_a_recognised_summary_is_not_part_of_what_was_said() {
    let text = "PREFIX\nwhat was said";
    let item = ResponseItem::user(text);
    let origin = Cow::Owned(Origin::Codex);
    let sent = SentItem { item: Cow::Borrowed(&item), origin, is_restored: true };
    let mut sources = Sources::new(&sent, 3, "PREFIX");
    let (bytes, prefix) = sources.next(text.len()).unwrap();
    assert_eq!((bytes, prefix.section.as_ref()), ("PREFIX\n".len(), "summary"));
    assert_eq!(prefix.source, Source::Convoke { what: "summary prefix".into() });
    let (rest, said) = sources.next(text.len() - bytes).unwrap();
    assert_eq!(rest, "what was said".len());
    assert_eq!(said.source, Source::History { index: Some(3) });
    assert!(sources.next(0).is_none());
}
