//! The texts of a scenario's sources, determined independently of the ledger.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use convoke_conformance::ledger::Body;
use convoke_core::ledger::{Entry, Rule, Source};
use convoke_files::Files;
use convoke_thread::pack::Pack;
use convoke_thread::prompt::Request;
use convoke_thread::user_input::decode_prompt;
use serde::Deserialize as _;
use serde_json::{Value, json};

use crate::frames::is_frame;
use crate::scenario::{Scenario, list};
use crate::script::{SESSION, session_of};
use crate::tree::Tree;

/// More bytes than any compared file has.
const FILE_BYTES: u64 = 8 << 20;
/// The message that follows a patch applied through a shell; see [`crate::tools`].
const PATCH_WARNING: &str = "Warning: apply_patch was requested via ";

/// The sources of a scenario.
pub(crate) struct Sources {
    frames: Vec<String>,
    /// Every string in the model's script, the client's steps and the configuration.
    said: HashSet<String>,
    /// The texts of the pack, which may have `{placeholders}`.
    templates: Vec<String>,
    /// The texts before and after the list of skills.
    skills: [String; 2],
    /// The outputs of tools, from the session files and the captures.
    outputs: HashSet<String>,
    /// Whether commands of the scenario write files.
    is_scripted: bool,
    /// Whether the scenario states every text; see [`states_everything`]. Otherwise, texts of messages,
    /// settings, tools and history are compared only at their boundaries.
    is_complete: bool,
    /// The files that a ledger has named, in every version that they had.
    files: RefCell<HashMap<String, Vec<String>>>,
}

impl Sources {
    pub(crate) fn new(scenario: &Scenario, pack: &Pack, folder: &Path) -> Self {
        // The default answer of the test model.
        let mut said = HashSet::from(["ok".to_owned()]);
        for key in ["modelScript", "steps", "runs", "stdin", "cwd"] {
            collect(scenario.get(key), &mut said);
        }
        for encoded in said.clone() {
            let bytes = STANDARD.decode(&encoded).ok().filter(|_| !encoded.is_empty());
            said.extend(bytes.and_then(|bytes| decode_prompt(&bytes).ok()));
            said.extend(decode_prompt(encoded.as_bytes()).ok());
        }
        let mut settings: Vec<_> = scenario.text("config").into_iter().map(str::to_owned).collect();
        for run in scenario.list("runs") {
            let overrides = list(&run["argv"]).iter().filter_map(Value::as_str);
            for setting in overrides.filter(|it| it.contains('=')) {
                settings.push(setting.to_owned());
                // A value that is not TOML is a string.
                let value = setting.split_once('=').map_or("", |(_, value)| value.trim());
                said.insert(value.trim_matches(['"', '\'']).to_owned());
            }
        }
        for file in scenario.list("files").iter().filter_map(|file| file["content"].as_str()) {
            settings.push(file.to_owned());
            said.extend([file.to_owned(), file.trim().to_owned()]);
        }
        let mut configured = HashSet::new();
        for setting in settings.iter().filter_map(|text| text.parse::<toml::Table>().ok()) {
            collect(&serde_json::to_value(setting).unwrap_or_default(), &mut configured);
        }
        // Some settings are sent without their outer white space.
        said.extend(configured.iter().map(|text| text.trim().to_owned()));
        said.extend(configured);
        let mut frames = vec![
            format!("{}\n", pack.compaction.summary_prefix),
            pack.wrappers.turn_aborted.clone(),
        ];
        let wrappers = [Some(&pack.wrappers.personality), pack.wrappers.model_switch.as_ref()];
        for wrapper in wrappers.into_iter().flatten() {
            let parts = wrapper.split_once("{spec}").or(wrapper.split_once("{model_instructions}"));
            frames.extend(parts.into_iter().flat_map(|(a, b)| [a.to_owned(), b.to_owned()]));
        }
        for skill in &pack.skills.system {
            said.insert(skill.text.to_string());
        }
        let mut outputs = HashSet::new();
        for line in scenario.rollouts().iter().flatten() {
            collect(&line["payload"]["output"], &mut outputs);
        }
        for structured in outputs.clone().iter().filter_map(|it| serde_json::from_str(it).ok()) {
            collect(&structured, &mut outputs);
        }
        for request in scenario.requests() {
            for item in list(&request["body"]["input"]) {
                collect(&item["output"], &mut outputs);
            }
            let messages = list(&request["body"]["messages"]).iter();
            for message in messages.filter(|message| message["role"] == "tool") {
                collect(&message["content"], &mut outputs);
            }
        }
        for session in outputs.iter().filter_map(|output| session_of(output)) {
            let scripted = said.iter().filter(|text| text.contains(SESSION));
            let filled: Vec<_> = scripted.map(|text| text.replace(SESSION, session)).collect();
            said.extend(filled);
        }
        let mut templates = Vec::new();
        collect_files(folder, &mut templates);
        let skills = [pack.skills.intro.clone(), pack.skills.how_to_use.clone()];
        let edits = scenario.list("runs").iter().map(|run| &run["editsBefore"]);
        let is_scripted = edits.chain([scenario.get("preCommands")]).any(|it| !list(it).is_empty())
            || scenario.list("steps").iter().any(|step| step["op"] == "sh");
        let files = RefCell::default();
        // All texts of the reviewed scenarios are known.
        let is_reviewed = std::env::var_os("CONVOKE_SCENARIOS").is_none();
        let is_complete = is_reviewed || (!is_scripted && states_everything(scenario));
        Self { frames, said, templates, skills, outputs, is_scripted, is_complete, files }
    }

    /// Checks the ledger of a request, and moves every boundary between two entries by a byte.
    pub(crate) fn check(&self, request: &Request, tree: &Tree) -> Result<usize, String> {
        let ledger = json!(request.ledger);
        let expected = |entry: &Value, text: &str| self.expected(entry, text, tree);
        Body { body: &request.body, ledger: &ledger, expected: &expected }.check()
    }

    /// Checks the text of an entry against its source.
    pub(crate) fn expected(&self, entry: &Value, text: &str, tree: &Tree) -> Result<(), String> {
        let entry = Entry::deserialize(entry).map_err(|why| why.to_string())?;
        let is_cut = entry.cut_bytes > 0 || entry.rule != Rule::Fits;
        let is_right = match &entry.source {
            Source::File { path, .. } => self.is_file(path, text, is_cut, tree),
            Source::Model { .. } => self.said.contains(text),
            Source::Message { .. } => !self.is_complete || self.is_message(text, is_cut),
            Source::Tool { .. } => !self.is_complete || self.is_output(text, is_cut),
            Source::Setting { name } => self.is_setting(name, text),
            Source::History { .. } => {
                !self.is_complete || self.is_message(text, is_cut) || self.outputs.contains(text)
            }
            Source::Convoke { what } => is_frame(what, text, &self.frames),
            _ => false,
        };
        if is_right && entry.rule != Rule::Unattributed {
            Ok(())
        } else {
            Err("the source has another text".to_owned())
        }
    }

    fn is_message(&self, text: &str, is_cut: bool) -> bool {
        text.starts_with("data:image/")
            || (is_cut && self.said.iter().any(|said| said.contains(text)))
            || self.is_joined(text, 4)
    }

    /// Returns whether a text is the concatenation of at most this many known texts, because a compaction joins
    /// the parts of a message.
    fn is_joined(&self, text: &str, parts: usize) -> bool {
        let begins = |said: &String| {
            let rest = text.strip_prefix(&**said).filter(|_| !said.is_empty() && parts > 1);
            rest.is_some_and(|rest| !rest.is_empty() && self.is_joined(rest, parts - 1))
        };
        self.said.contains(text) || self.said.iter().any(begins)
    }

    fn is_file(&self, path: &str, text: &str, is_cut: bool, tree: &Tree) -> bool {
        let mut files = self.files.borrow_mut();
        let versions = files.entry(path.to_owned()).or_default();
        if let Ok(head) = tree.read_head(Path::new(path), FILE_BYTES) {
            let now = String::from_utf8_lossy(&head.bytes).into_owned();
            if !versions.contains(&now) {
                versions.push(now);
            }
        }
        let fits = |file: &String| {
            if is_cut {
                // The character that the limit cut in two is sent as U+FFFD.
                file.starts_with(text.trim_end_matches('\u{fffd}'))
            } else {
                file == text || file.trim() == text
            }
        };
        versions.iter().any(fits) || self.said.contains(text)
    }

    /// Returns whether a text is an output, possibly after a header. Of a truncated output, the head and the
    /// tail are kept.
    fn is_output(&self, text: &str, is_cut: bool) -> bool {
        self.outputs.iter().chain(&self.said).any(|output| {
            let after_header =
                output.strip_suffix(text).is_some_and(|it| it.ends_with("Output:\n"));
            output == text || after_header || (is_cut && output.contains(text))
        }) || text.starts_with(PATCH_WARNING)
            // An image that the model asked for, or why it cannot be sent.
            || text.starts_with("data:image/")
            || is_frame("note", text, &[])
    }

    fn is_setting(&self, name: &str, text: &str) -> bool {
        match name {
            "sandbox_workspace_write" => {
                text.starts_with(" The writable root") && text.ends_with("`.")
            }
            "cwd" => text == "/" || (text.starts_with('/') && !text.ends_with('/')),
            "shell" => ["bash", "sh", "zsh", "powershell", "cmd"].contains(&text),
            "skills" => {
                let [intro, outro] = &self.skills;
                text.starts_with(&format!("## Skills\n{intro}\n")) && text.ends_with(outro.as_str())
            }
            _ if self.said.contains(text) || self.is_of_pack(text) => true,
            "model" => self.said.iter().any(|template| fills(template, text)),
            "sandbox_mode" | "approval_policy" => false,
            // A command may have written the file that the setting names.
            _ => self.is_scripted || !self.is_complete,
        }
    }

    /// Returns whether a text is one of the pack's texts, or several in a row.
    fn is_of_pack(&self, text: &str) -> bool {
        self.templates.iter().any(|template| {
            let rest = text.strip_prefix(&**template).map(str::trim_start);
            fills(template, text) || rest.is_some_and(|rest| rest != text && self.is_of_pack(rest))
        })
    }
}

/// Returns whether a scenario consists only of fields and steps whose texts are collected here, so that every
/// text of its requests must be among them.
fn states_everything(scenario: &Scenario) -> bool {
    const FIELDS: [&str; 22] = [
        "name",
        "group",
        "about",
        "codex",
        "driver",
        "model",
        "home",
        "codexHome",
        "cwd",
        "env",
        "config",
        "files",
        "gitRepos",
        "preCommands",
        "modelScript",
        "runs",
        "steps",
        "stdin",
        "requests",
        "rollouts",
        "notCompared",
        "decisions",
    ];
    const RUN_FIELDS: [&str; 8] =
        ["argv", "cwd", "exit", "steps", "stderr", "requests", "editsBefore", "stdin"];
    const STEPS: [&str; 5] = ["start", "turn", "rollback", "compact", "resume"];
    let has_only = |value: &Value, known: &[&str]| {
        let mut fields = value.as_object().into_iter().flat_map(|it| it.keys());
        fields.all(|field| known.contains(&field.as_str()))
    };
    let is_step = |step: &Value| step["op"].as_str().is_some_and(|op| STEPS.contains(&op));
    has_only(scenario.value(), &FIELDS)
        && scenario.list("runs").iter().all(|run| has_only(run, &RUN_FIELDS))
        && scenario.list("steps").iter().all(is_step)
}

/// Returns whether a text is a template with its `{placeholders}` and `{{ placeholders }}` filled in.
fn fills(template: &str, text: &str) -> bool {
    let mut pieces = pieces(template);
    let (Some(last), Some(first)) = (pieces.pop(), (!pieces.is_empty()).then(|| pieces.remove(0)))
    else {
        return template == text;
    };
    let Some(mut rest) = text.strip_prefix(first).and_then(|it| it.strip_suffix(last)) else {
        return false;
    };
    pieces.iter().all(|piece| match rest.split_once(piece) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

/// Returns the texts between the placeholders of a template.
fn pieces(template: &str) -> Vec<&str> {
    let (mut pieces, mut start, mut at) = (Vec::new(), 0, 0);
    while let Some(open) = template[at..].find('{').map(|it| at + it) {
        let inside = template[open..].trim_start_matches('{');
        let name = inside.split('}').next().unwrap_or_default();
        let end = template.len() - inside.len() + name.len();
        let close = template.len() - template[end..].trim_start_matches('}').len();
        let is_name = |it: u8| it.is_ascii_alphabetic() || it == b'_';
        at = open + 1;
        if close > end && !name.trim().is_empty() && name.trim().bytes().all(is_name) {
            pieces.push(&template[start..open]);
            (start, at) = (close, close);
        }
    }
    pieces.push(&template[start..]);
    pieces
}

/// Collects the texts of a directory, each as it is and trimmed.
fn collect_files(folder: &Path, into: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect_files(&path, into);
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            into.push(text.trim().to_owned());
            into.push(text);
        }
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
