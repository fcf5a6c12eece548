//! Property tests of threads.

use std::collections::HashSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::Thread;
use crate::fixture::{World, body, lines, say};
use crate::history::{Entry, History, Section, normalize};
use crate::item::ResponseItem;
use crate::model::TruncationPolicy;
use crate::record::{Event, Record};

/// Any item that a history may contain, with few call ids, so that they collide.
fn any_item() -> impl Strategy<Value = Value> {
    let id = prop_oneof![Just("a"), Just("b"), Just("c")];
    let text = "\\PC{0,40}";
    prop_oneof![
        (prop_oneof![Just("user"), Just("assistant"), Just("developer"), Just("system")], text)
            .prop_map(|(role, text)| {
                let kind = if role == "assistant" { "output_text" } else { "input_text" };
                let part = json!({"type": kind, "text": text});
                json!({"type": "message", "role": role, "content": [part]})
            }),
        (id.clone(), text).prop_map(|(id, text)| json!({
            "type": "function_call", "name": "shell", "arguments": text, "call_id": id,
        })),
        (id.clone(), text).prop_map(|(id, text)| json!({
            "type": "function_call_output", "call_id": id, "output": text,
        })),
        (id.clone(), text).prop_map(|(id, text)| json!({
            "type": "custom_tool_call", "call_id": id, "name": "apply_patch", "input": text,
        })),
        (id.clone(), text).prop_map(|(id, text)| json!({
            "type": "custom_tool_call_output", "call_id": id, "output": text,
        })),
        proptest::option::of(id).prop_map(|id| json!({
            "type": "local_shell_call", "call_id": id, "status": "completed",
            "action": {"type": "exec", "command": ["ls"]},
        })),
        text.prop_map(|text| json!({
            "type": "reasoning", "summary": [{"type": "summary_text", "text": text}],
            "encrypted_content": text,
        })),
        Just(json!({"type": "ghost_snapshot", "ghost_commit": {"id": "g"}})),
        Just(json!({"type": "unheard_of"})),
    ]
}

fn call_ids(items: &[Value], kinds: &[&str]) -> HashSet<String> {
    let of_kind = |item: &&Value| kinds.iter().any(|kind| item["type"] == *kind);
    let ids = items.iter().filter(of_kind);
    ids.filter_map(|item| item["call_id"].as_str().map(str::to_owned)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_history_yields_a_request_that_the_api_accepts(
        items in proptest::collection::vec(any_item(), 0..20),
        freeform in any::<bool>(),
        chat in any::<bool>(),
    ) {
        let world = World::new("");
        let items = items.into_iter().map(|it| Event::Item(ResponseItem::try_from(it).unwrap().into()));
        let record = Record { events: items.collect(), ..Record::default() };
        let mut config = world.config();
        if chat {
            config.provider.wire = crate::config::Wire::Chat;
        }
        let mut thread = Thread::fork(world.setup(), config, &record, "f").unwrap();
        if freeform {
            thread.set_tools(vec![json!({"type": "custom", "name": "apply_patch"})]);
        }
        // `body` also checks that the ledger covers every byte.
        let body = body(&say(&mut thread, "go"));
        if !chat {
            let sent = body["input"].as_array().unwrap();
            let functions = ["function_call", "local_shell_call"];
            let calls = call_ids(sent, &functions);
            prop_assert_eq!(&calls, &call_ids(sent, &["function_call_output"]));
            let calls = call_ids(sent, &["custom_tool_call"]);
            prop_assert_eq!(&calls, &call_ids(sent, &["custom_tool_call_output"]));
            prop_assert!(sent.iter().all(|item| item["type"] != "ghost_snapshot"));
            prop_assert!(sent.iter().all(|item| item["role"] != "system"));
        }
    }

    #[test]
    fn normalizing_keeps_the_order_of_what_stays(
        items in proptest::collection::vec(any_item(), 0..20),
    ) {
        let mut history = History::default();
        for item in items {
            let entry = Entry::from(ResponseItem::try_from(item).unwrap());
            history.record(entry, TruncationPolicy::Bytes(10), &mut Vec::new());
        }
        let sent = normalize(history.entries(), &mut Vec::new());
        let mut left = history.items();
        for sent in sent.iter().filter(|it| it.origin.section() != Some(Section::MissingOutput)) {
            prop_assert!(left.any(|item| item == sent.item.as_ref()));
        }
    }

    #[test]
    fn the_order_of_the_context_is_fixed_whatever_is_present(
        developer in any::<bool>(),
        document in any::<bool>(),
        skill in any::<bool>(),
        note in any::<bool>(),
        friendly in any::<bool>(),
    ) {
        let mut config = "model = \"person\"\n".to_owned();
        if developer {
            config.push_str("developer_instructions = \"DEV\"\n");
        }
        if friendly {
            config.push_str("personality = \"friendly\"\n");
        }
        if note {
            config.push_str("[features]\nchild_agents_md = true\n");
        }
        let mut world = World::new(&config);
        if document {
            world.tree.write("/r/AGENTS.md", "DOC");
        }
        if skill {
            let text = "---\nname: s\ndescription: d\n---\nbody";
            world.tree.write("/home/.codex/skills/s/SKILL.md", text);
        }
        // The restored instructions have another personality, so it must be injected.
        let record = Record { base_instructions: Some("other".to_owned()), ..Record::default() };
        let mut thread = Thread::fork(world.setup(), world.config(), &record, "f").unwrap();
        let lines = lines(&say(&mut thread, "go $s"));
        let order = [
            "developer: <permissions", "developer: DEV", "developer: <personality",
            "user: # AGENTS.md", "user: <environment", "user: go", "user: <skill>",
        ];
        let places: Vec<_> = lines
            .iter()
            .map(|line| order.iter().position(|start| line.starts_with(start)).unwrap())
            .collect();
        prop_assert!(places.is_sorted(), "{lines:?}");
        let present = [true, developer, true, document || skill || note, true, true, skill];
        let expected: Vec<_> = (0..7).filter(|place| present[*place]).collect();
        prop_assert_eq!(places, expected);
        let parts = ["DOC", "## Skills", "nested"];
        let found: Vec<_> = lines.iter().flat_map(|line| {
            parts.iter().filter_map(move |part| line.find(part))
        }).collect();
        prop_assert!(found.is_sorted());
    }

    #[test]
    fn no_document_ends_its_wrapper_early_without_a_diagnostic(
        before in "[a-z<>/ \n]{0,20}",
        tag in prop_oneof![Just(""), Just("</INSTRUCTIONS>"), Just("</INSTRUCTION>")],
        max in 0_u64..60,
    ) {
        let mut world = World::new(&format!("project_doc_max_bytes = {max}\n"));
        world.tree.write("/r/AGENTS.md", format!("x{before}{tag}\nafter"));
        let mut thread = world.start();
        let super::Step::Send(request) = say(&mut thread, "go") else {
            panic!("no request");
        };
        let closed = request.body.matches("</INSTRUCTIONS>").count() > 1;
        let told = request.diagnostics.iter().any(|it| it.code.name() == "text.closes-wrapper");
        prop_assert_eq!(closed, told);
    }

    #[test]
    fn project_documents_stay_within_their_budget(
        sizes in proptest::collection::vec(0_usize..40, 1..6),
        max in 0_u64..100,
    ) {
        let mut world = World::new(&format!("project_doc_max_bytes = {max}\n"));
        let mut folder = "/r".to_owned();
        let mut whole = 0;
        for size in sizes {
            world.tree.write(format!("{folder}/AGENTS.md"), "é".repeat(size));
            whole += size as u64 * 2;
            folder.push_str("/d");
            world.tree.create_directory(&folder);
        }
        world.machine.cwd = folder.into();
        let mut thread = world.start();
        let super::Step::Send(request) = say(&mut thread, "go") else {
            panic!("no request");
        };
        let files = request.ledger.entries().filter(|entry| {
            matches!(entry.source, convoke_core::ledger::Source::File { .. })
        });
        // A truncated character is sent as three bytes.
        let kept: u64 = files.map(|entry| entry.kept_bytes()).sum();
        prop_assert!(kept <= max + 2);
        let told = request.diagnostics.iter().any(|it| it.code.name() == "agents-md.truncated");
        prop_assert_eq!(told, max > 0 && whole > max);
    }
}
