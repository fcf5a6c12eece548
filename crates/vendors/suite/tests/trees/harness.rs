//! Scenarios that check the harness itself: what the recorder could not see, and what depends on the place.

use serde_json::json;

use crate::compare::compare;
use crate::layout::{self, Laid};
use crate::scenario::{Content, Scenario};

/// Checks the harness; returns what is wrong with it.
pub fn check() -> Result<(), String> {
    utf16_is_compared()?;
    notes_are_found_at_any_place()
}

fn utf16_is_compared() -> Result<(), String> {
    let bytes: Vec<u8> = std::iter::once(0xfeff)
        .chain("SENTINEL-01 rules\n".encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    let mut scenario = Scenario::parse(
        &json!({
            "files": [
                {"path": "repo/CLAUDE.md", "kind": "file", "content": bytes},
                {"path": "repo/sub/CLAUDE.md", "kind": "file", "content": "SENTINEL-02 rules"},
            ],
            "home": "/lab/home",
            "cwd": "/lab/repo/sub",
            "results": {"claude": {
                "loaded": [{"path": "repo/sub/CLAUDE.md", "bytes_file": 17, "bytes_seen": 17, "whole": true}],
                "ignored": ["repo/CLAUDE.md"],
            }},
        })
        .to_string(),
    )?;
    for laid in both(&scenario)? {
        passes(&laid, &scenario)?;
    }
    let laid = layout::in_memory(&scenario);
    scenario.files[0].content = Content::File(b"\xff\xfeO\0".to_vec());
    match passes(&laid, &scenario) {
        Err(_) => Ok(()),
        Ok(()) => Err("other bytes of a UTF-16 file were not noticed".to_owned()),
    }
}

fn notes_are_found_at_any_place() -> Result<(), String> {
    let path = "home/.claude/projects/-lab-repo/memory/MEMORY.md";
    let scenario = Scenario::parse(
        &json!({
            "files": [{"path": path, "kind": "file", "content": "SENTINEL-01 notes"}],
            "gitRepos": [{"path": "repo", "kind": "dir"}],
            "home": "/lab/home",
            "cwd": "/lab/repo",
            "results": {"claude": {
                "loaded": [{"path": path, "bytes_file": 17, "bytes_seen": 17, "whole": true}],
                "ignored": [],
            }},
        })
        .to_string(),
    )?;
    for laid in both(&scenario)? {
        passes(&laid, &scenario)?;
    }
    Ok(())
}

fn both(scenario: &Scenario) -> Result<[Laid; 2], String> {
    let on_disk = layout::on_disk(scenario).map_err(|skipped| skipped.0.to_owned())?;
    Ok([layout::in_memory(scenario), on_disk])
}

fn passes(laid: &Laid, scenario: &Scenario) -> Result<(), String> {
    let (agent, expected) = &scenario.results[0];
    compare(laid, scenario, agent, expected, &laid.explain(scenario, agent))
        .map_err(|difference| format!("{}: {difference}", laid.title()))
}
