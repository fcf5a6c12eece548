//! What the sources of a scenario hold, known apart from the ledger that names them.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::path::Path;

use convoke_core::ledger::{Entry, Source};
use convoke_files::{FileKind, Files};
use convoke_thread::pack::Pack;
use convoke_thread::prompt::Request;
use serde_json::Value;

use crate::exact;
use crate::scenario::Scenario;
use crate::tree::Tree;

/// The sources of a scenario.
pub(crate) struct Sources {
    frames: Vec<String>,
    /// Every string that the model's script, its items and the client's steps hold.
    said: HashSet<String>,
    /// The files that a ledger has named, in every version that they had.
    files: RefCell<HashMap<String, Vec<String>>>,
}

impl Sources {
    pub(crate) fn new(scenario: &Scenario, pack: &Pack) -> Self {
        // The lab's model says so when its script says nothing.
        let mut said = HashSet::from(["ok".to_owned()]);
        for key in ["modelScript", "steps", "runs", "stdin"] {
            collect(scenario.get(key), &mut said);
        }
        let mut frames = vec![format!("{}\n", pack.compaction.summary_prefix)];
        let wrappers = [Some(&pack.wrappers.personality), pack.wrappers.model_switch.as_ref()];
        for wrapper in wrappers.into_iter().flatten() {
            let parts = wrapper.split_once("{spec}").or(wrapper.split_once("{model_instructions}"));
            frames.extend(parts.into_iter().flat_map(|(a, b)| [a.to_owned(), b.to_owned()]));
        }
        for skill in &pack.skills.system {
            said.insert(skill.text.to_string());
        }
        Self { frames, said, files: RefCell::default() }
    }

    /// Checks the ledger of a request; see [`exact`].
    pub(crate) fn check(&self, request: &Request, tree: &Tree) -> Result<usize, String> {
        let expected = |entry: &Entry<'_>, text: &str| self.expected(entry, text, tree);
        let request = exact::Request {
            body: &request.body,
            ledger: &request.ledger,
            frames: &self.frames,
            expected: &expected,
        };
        request.check()
    }

    fn expected(&self, entry: &Entry<'_>, text: &str, tree: &Tree) -> Result<(), String> {
        let is_right = match &entry.source {
            Source::File { path, .. } => {
                let mut files = self.files.borrow_mut();
                let versions = files.entry(path.to_string()).or_default();
                if let Ok(now) = tree.read_text(Path::new(&**path), FileKind::Instructions)
                    && !versions.contains(&now)
                {
                    versions.push(now);
                }
                let is_cut = entry.cut_bytes > 0;
                let fits = |file: &String| {
                    if is_cut {
                        // The character that the limit cut in two is sent as a replacement.
                        file.starts_with(text.trim_end_matches('\u{fffd}'))
                    } else {
                        file == text || file.trim() == text
                    }
                };
                versions.iter().any(fits) || self.said.contains(text)
            }
            Source::Model { .. } => self.said.contains(text),
            Source::Setting { name } if name == "sandbox_workspace_write" => {
                text.starts_with(" The writable root") && text.ends_with("`.")
            }
            _ => true,
        };
        if is_right { Ok(()) } else { Err("that is not what the source holds".to_owned()) }
    }
}

fn collect(value: &Value, into: &mut HashSet<String>) {
    match value {
        Value::String(text) => {
            into.insert(text.clone());
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, into)),
        Value::Object(fields) => fields.values().for_each(|value| collect(value, into)),
        _ => {}
    }
}
