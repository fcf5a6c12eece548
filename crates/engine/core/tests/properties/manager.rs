//! The context manager against a model that is just a list: the same calls give the same answers.

mod model;

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use convoke_core::marker::TextPolicy;
use convoke_core::{
    AgentContext, ContextManager, ContextManagerOptions, ContextOptions, ConversationMessage,
    Hooks, MessageId, MessageLimit, Millis, NewMessage, Speaker, SpeakerType, Timestamp,
    Visibility,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use self::model::{Model, Settings};
use crate::hostile;

/// One call.
#[derive(Debug, Clone)]
enum Call {
    Add(Box<NewMessage>),
    SetTask(String),
    Clear,
    /// Exports the state, edits it, and imports it again.
    Reimport(SnapshotEdit),
    /// Imports another conversation.
    Import(Vec<NewMessage>),
    /// Imports something that must be refused.
    ImportMalformed(usize),
    Context {
        agent: &'static str,
        window: Option<usize>,
    },
    Reply {
        to: MessageId,
        agent: &'static str,
        window: Option<usize>,
    },
    LookUp {
        id: MessageId,
        speaker: String,
        from: i64,
        until: i64,
    },
}

/// A change of a snapshot between export and import.
#[derive(Debug, Clone, Copy)]
enum SnapshotEdit {
    None,
    DuplicateIds,
    ForeignIds,
}

proptest! {
    #[test]
    fn the_manager_answers_as_a_plain_list_does(
        settings in settings(),
        calls in vec(call(), 1..60),
    ) {
        let archive = Arc::new(Mutex::new(Vec::new()));
        let mut manager = manager(&settings, &archive);
        let mut model = Model::new(settings);
        for call in calls {
            answers_agree(&mut manager, &mut model, call)?;
            let held: Vec<ConversationMessage> = manager.messages().cloned().collect();
            prop_assert_eq!(&held, &model.messages);
            prop_assert_eq!(manager.latest_message(), model.messages.last());
            prop_assert_eq!(manager.history().len(), model.messages.len());
            prop_assert_eq!(manager.team_task(), model.task.as_deref());
            prop_assert_eq!(&*archive.lock().expect("one thread"), &model.archived);
        }
    }

    #[test]
    fn a_snapshot_comes_back_as_it_was(
        messages in vec(new_message(), 0..20),
        task in option::of(hostile::long_text()),
    ) {
        let mut manager = ContextManager::default();
        for message in messages {
            manager.add_message(message);
        }
        if let Some(task) = task {
            manager.set_team_task(&task);
        }
        let text = serde_json::to_string(&manager.export_snapshot(Millis(7))).expect("JSON");
        let mut restored = ContextManager::default();
        let snapshot: Value = serde_json::from_str(&text).expect("JSON");
        let diagnostics = restored.import_snapshot(snapshot).expect("our own snapshot");
        prop_assert!(diagnostics.is_empty());
        prop_assert_eq!(serde_json::to_string(&restored.export_snapshot(Millis(7))).expect("JSON"), text);
        let next = NewMessage::new(Speaker::new("a", "a", SpeakerType::Ai), "");
        let (id, restored_id) = (
            manager.add_message(next.clone()).id.clone(),
            restored.add_message(next).id.clone(),
        );
        prop_assert_eq!(id, restored_id);
    }
}

fn answers_agree(
    manager: &mut ContextManager,
    model: &mut Model,
    call: Call,
) -> Result<(), TestCaseError> {
    match call {
        Call::Add(message) => {
            let added = manager.add_message((*message).clone()).clone();
            prop_assert_eq!(added, model.add(*message));
        }
        Call::SetTask(task) => {
            let cut = manager.set_team_task(&task);
            prop_assert_eq!(cut.is_some(), task.len() > 5120);
            model.set_task(Some(&task));
        }
        Call::Clear => {
            manager.clear();
            model.clear();
        }
        Call::Reimport(edit) => {
            let mut snapshot = json!(manager.export_snapshot(Millis(0)));
            for (index, message) in
                snapshot["messages"].as_array_mut().expect("a list").iter_mut().enumerate()
            {
                match edit {
                    SnapshotEdit::None => {}
                    SnapshotEdit::DuplicateIds => {
                        message["id"] = json!(format!("msg-{}", index / 2));
                    }
                    SnapshotEdit::ForeignIds => message["id"] = json!(format!("m{index}")),
                }
            }
            manager.import_snapshot(snapshot.clone()).expect("a well-formed snapshot");
            model.import(&snapshot);
        }
        Call::Import(messages) => {
            let numbered = messages.into_iter().zip(1..);
            let messages: Vec<_> =
                numbered.map(|(message, n)| message.with_id(MessageId::numbered(n))).collect();
            let snapshot = json!({"version": 1, "messages": messages, "teamTask": "another"});
            manager.import_snapshot(snapshot.clone()).expect("a well-formed snapshot");
            model.import(&snapshot);
        }
        Call::ImportMalformed(kind) => {
            let kinds = malformed();
            let before = json!(manager.export_snapshot(Millis(0)));
            let refused = manager.import_snapshot(kinds[kind % kinds.len()].clone());
            prop_assert_eq!(refused.expect_err("refused").to_string(), "Invalid snapshot format");
            prop_assert_eq!(json!(manager.export_snapshot(Millis(0))), before);
        }
        Call::Context { agent, window } => {
            let input = manager.context_for_agent(agent, with_window(window));
            prop_assert_eq!(json!(input), model.context(None, agent, window));
        }
        Call::Reply { to, agent, window } => {
            let known = model.position(&to);
            match manager.context_for_reply(&to, agent, with_window(window)) {
                Ok(input) => {
                    prop_assert!(known.is_some());
                    prop_assert_eq!(json!(input), model.context(known, agent, window));
                }
                Err(unknown) => prop_assert_eq!((unknown.0, None), (to, known)),
            }
        }
        Call::LookUp { id, speaker, from, until } => {
            let history = manager.history();
            prop_assert_eq!(history.by_id(&id), model.by_id(&id));
            let listed = |found: Vec<&ConversationMessage>| -> Vec<ConversationMessage> {
                found.into_iter().cloned().collect()
            };
            let said = listed(history.by_speaker(&speaker).collect());
            prop_assert_eq!(said, model.filtered(|m| m.speaker.role_id == speaker));
            let replies = listed(history.replies_to(&id).collect());
            prop_assert_eq!(replies, model.filtered(|m| m.in_reply_to.as_ref() == Some(&id)));
            let timed = listed(history.between(Millis(from)..=Millis(until)).collect());
            let in_range = |m: &ConversationMessage| {
                let time = m.timestamp.as_ref().and_then(Timestamp::millis);
                time.is_some_and(|time| (Millis(from)..=Millis(until)).contains(&time))
            };
            prop_assert_eq!(timed, model.filtered(in_range));
        }
    }
    Ok(())
}

fn with_window(window: Option<usize>) -> AgentContext<'static> {
    AgentContext { window_size_override: window, ..AgentContext::default() }
}

fn manager(settings: &Settings, archive: &Arc<Mutex<Vec<ConversationMessage>>>) -> ContextManager {
    let options = ContextManagerOptions {
        context: ContextOptions {
            window: settings.window,
            text: settings.policy,
            visibility: settings.visibility,
            ..ContextOptions::default()
        },
        agent_windows: [("max".to_owned(), settings.window_of_max)].into(),
    };
    let archive = Arc::clone(archive);
    let limit = settings.limit.map(|keep| MessageLimit {
        keep,
        archive: Box::new(move |message| archive.lock().expect("one thread").push(message)),
    });
    ContextManager::new(options, Hooks { limit, ..Hooks::default() })
}

fn settings() -> impl Strategy<Value = Settings> {
    (
        0_usize..6,
        0_usize..4,
        option::of((1_usize..12).prop_map(|n| NonZeroUsize::new(n).expect("not 0"))),
        select(&[Visibility::All, Visibility::Addressed][..]),
        select(&[TextPolicy::Preserve, TextPolicy::Compat][..]),
    )
        .prop_map(|(window, window_of_max, limit, visibility, policy)| Settings {
            window,
            window_of_max,
            limit,
            visibility,
            policy,
        })
}

fn call() -> impl Strategy<Value = Call> {
    let window = || option::of(0_usize..8);
    let agent = || select(&["max", "sarah", "Code Reviewer"][..]);
    let edit =
        select(&[SnapshotEdit::None, SnapshotEdit::DuplicateIds, SnapshotEdit::ForeignIds][..]);
    prop_oneof![
        12 => new_message().prop_map(|message| Call::Add(Box::new(message))),
        1 => hostile::long_text().prop_map(Call::SetTask),
        1 => Just(Call::Clear),
        2 => edit.prop_map(Call::Reimport),
        1 => vec(new_message(), 0..20).prop_map(Call::Import),
        1 => any::<usize>().prop_map(Call::ImportMalformed),
        6 => (agent(), window()).prop_map(|(agent, window)| Call::Context { agent, window }),
        4 => (id(), agent(), window()).prop_map(|(to, agent, window)| Call::Reply { to, agent, window }),
        2 => (id(), speaker_id(), 0_i64..20, 0_i64..20)
            .prop_map(|(id, speaker, from, until)| Call::LookUp { id, speaker, from, until }),
    ]
}

fn id() -> impl Strategy<Value = MessageId> {
    (0_u64..24).prop_map(MessageId::numbered)
}

fn speaker_id() -> impl Strategy<Value = String> {
    select(&["max", "sarah", "code-reviewer", "kailai"][..]).prop_map(str::to_owned)
}

fn new_message() -> impl Strategy<Value = NewMessage> {
    let kind =
        select(&[SpeakerType::Human, SpeakerType::Ai, SpeakerType::Ai, SpeakerType::System][..]);
    let content = prop_oneof![
        2 => select(&["yes", "no", "yes [NEXT: max]"][..]).prop_map(str::to_owned),
        1 => hostile::text(),
    ];
    let to = vec(select(&["max", "MAX", "sarah", "code_reviewer", "all", "nobody"][..]), 0..3);
    let time = prop_oneof![
        3 => (0_i64..20).prop_map(|millis| Some(Timestamp::Millis(millis.into()))),
        1 => Just(Some(Timestamp::Text("1970-01-01T00:00:00.010Z".to_owned()))),
        1 => Just(Some(Timestamp::Text("at noon".to_owned()))),
        1 => Just(None),
    ];
    (speaker_id(), kind, content, option::of(to), option::of(id()), time).prop_map(
        |(speaker, kind, content, to, in_reply_to, timestamp)| {
            let mut message = NewMessage::new(Speaker::new(&*speaker, &*speaker, kind), content);
            if let Some(to) = to {
                message = message.to(to);
            }
            NewMessage { in_reply_to, timestamp, ..message }
        },
    )
}

/// Snapshots that must be refused, each for another reason.
fn malformed() -> Vec<Value> {
    let good = json!({"id": "msg-1", "content": "x", "speaker": {"roleId": "a"}});
    let with = |field: &str, value: Value| {
        let mut message = good.clone();
        message[field] = value;
        json!({"version": 1, "messages": [good, message], "teamTask": null})
    };
    vec![
        json!(null),
        json!([]),
        json!({"messages": []}),
        json!({"version": "1", "messages": []}),
        json!({"version": 2, "messages": []}),
        json!({"version": 1}),
        json!({"version": 1, "messages": {}}),
        json!({"version": 1, "messages": [null]}),
        json!({"version": 1, "messages": [], "teamTask": 5}),
        with("id", json!(5)),
        with("id", json!("msg-9007199254740992")),
        with("id", json!("msg-99999999999999999999999")),
        with("content", json!(null)),
        with("speaker", json!(null)),
        with("speaker", json!({"roleId": ""})),
        with("routing", json!([])),
        with("inReplyTo", json!(5)),
        with("timestamp", json!({})),
    ]
}
