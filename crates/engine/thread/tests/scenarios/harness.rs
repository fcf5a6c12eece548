//! Checks the harness itself: texts that neither the script nor the configuration states as they are sent.

use std::path::Path;

use convoke_files::Disk;
use convoke_thread::pack::Pack;
use serde_json::json;

use crate::scenario::Scenario;
use crate::sources::Sources;
use crate::tree::{Tree, pack_folder};

/// Checks the harness; returns what is wrong with it.
pub(crate) fn check() -> Result<(), String> {
    let scenario = Scenario::new(
        json!({
            "driver": "exec",
            "files": [{"path": "/lab/repo/AGENTS.md", "content": "Use tabs.\n"}],
            "modelScript": {"responses": [{"items": [
                {"type": "function_call", "name": "write_stdin", "arguments": "{\"session_id\": @@SESSION@@}"},
            ]}]},
        }),
        vec![json!({"body": {"input": [
            {"type": "function_call_output", "output": "Process running with session ID 42\nOutput:\n"},
        ]}})],
    );
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packs/convoke");
    let pack = Pack::load(&Disk, &folder).map_err(|error| error.to_string())?;
    let sources = Sources::new(&scenario, &pack, &folder);
    // A program without skills of its own.
    let packs = tempfile::tempdir().map_err(|error| error.to_string())?;
    let skills = pack_folder(&scenario, packs.path()).join("skills/system");
    std::fs::create_dir_all(skills).map_err(|error| error.to_string())?;
    let tree = Tree::lay_out(&scenario, packs.path())?;
    // The file changed after the thread had read it.
    tree.run(&["printf changed > /lab/repo/AGENTS.md".to_owned()])?;
    let (model, tool) = (json!({"kind": "model"}), json!({"kind": "tool"}));
    let file = json!({"kind": "file", "path": "/lab/repo/AGENTS.md"});
    for (source, text, is_right) in [
        (&model, "{\"session_id\": 42}", true),
        (&model, "{\"session_id\": 43}", false),
        (&tool, "data:image/png;base64,aaaa", true),
        (&tool, "Warning: apply_patch was requested via shell.", true),
        (&tool, "Use tab", false),
        (&file, "Use tabs.\n", true),
        (&file, "changed", true),
        (&file, "chang", false),
    ] {
        let entry = json!({
            "target": "prompt", "section": "x", "source": source, "state": "kept",
            "range": [0, text.len()], "keptBytes": text.len(), "cutBytes": 0, "rule": "fits",
        });
        let found = sources.expected(&entry, text, &tree);
        if found.is_ok() != is_right {
            return Err(format!("{source} with the text {text:?}: {found:?}"));
        }
    }
    Ok(())
}
