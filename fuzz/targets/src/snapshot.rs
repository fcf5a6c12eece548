use convoke_core::{AgentContext, ContextManager, Millis, NewMessage, Speaker, SpeakerType};
use serde_json::{Value, json};

/// Imports any JSON as a snapshot: it is imported whole and exported unchanged, or refused without
/// effect.
pub fn snapshot(bytes: &[u8]) -> bool {
    let Ok(snapshot) = serde_json::from_slice::<Value>(bytes) else { return false };
    let mut manager = ContextManager::default();
    manager.add_message(NewMessage::new(Speaker::new("a", "A", SpeakerType::Human), "kept"));
    manager.set_team_task("kept");
    let before = json!(manager.export_snapshot(Millis(0)));

    if manager.import_snapshot(snapshot).is_err() {
        assert_eq!(json!(manager.export_snapshot(Millis(0))), before, "a refusal changes nothing");
        return false;
    }
    let exported = json!(manager.export_snapshot(Millis(0)));
    let mut restored = ContextManager::default();
    restored.import_snapshot(exported.clone()).expect("our own snapshot");
    assert_eq!(json!(restored.export_snapshot(Millis(0))), exported);

    let input = manager.context_for_agent("a", AgentContext::default());
    if let Ok(output) = manager.assemble_prompt("codex", &input) {
        assert_eq!(output.ledger.used_bytes(), output.prompt.len() as u64);
    }
    let ids: Vec<_> = manager.messages().map(|message| message.id.clone()).collect();
    for id in ids {
        manager.context_for_reply(&id, "a", AgentContext::default()).expect("a known message");
    }
    let next = NewMessage::new(Speaker::new("a", "A", SpeakerType::Ai), "");
    let id = manager.add_message(next).id.clone();
    assert_eq!(manager.messages().filter(|message| message.id == id).count(), 1, "ids are new");
    true
}
