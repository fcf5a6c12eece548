//! The inputs of a request besides the directory and the configuration.

use std::io::{IsTerminal, stdin};
use std::path::{Path, PathBuf};

use convoke_core::Diagnostic;
use convoke_files::FileKind;
use convoke_files::limit::{read_named, read_stream};
use convoke_thread::model::{ModelFacts, read_listed};
use convoke_thread::record::{self, Record};
use convoke_thread::user_input::{UserInput, decode_prompt};
use serde_json::Value;

use crate::diagnostics::own;
use crate::outcome::UsageError;

/// Reads the user's input: the images, then the text.
pub(super) fn turn(images: &[PathBuf], prompt: Option<&str>) -> Result<Vec<UserInput>, UsageError> {
    let text = match prompt {
        Some(text) if text != "-" => text.to_owned(),
        asked => from_standard_input(asked.is_some())?,
    };
    let images = images.iter().cloned().map(UserInput::LocalImage);
    Ok(images.chain([UserInput::Text(text)]).collect())
}

fn from_standard_input(asked_for: bool) -> Result<String, UsageError> {
    let input = stdin().lock();
    let give = "pass one as an argument or on standard input";
    if !asked_for && input.is_terminal() {
        return Err(UsageError(format!("no prompt given; {give}")));
    }
    let bytes = read_stream(input, Path::new("-"), FileKind::Input)
        .map_err(|error| UsageError(format!("cannot read the prompt: {error}")))?;
    let text = decode_prompt(&bytes)
        .map_err(|wrong| UsageError(format!("the prompt on standard input {wrong}")))?;
    if text.trim().is_empty() {
        return Err(UsageError(format!("the prompt on standard input is empty; {give}")));
    }
    Ok(text)
}

/// Reads the tools; without any, adds a diagnostic.
pub(super) fn tools(
    path: Option<&Path>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Vec<Value>, UsageError> {
    let Some(path) = path else {
        let message = "the request has no tools, because --tools was not given";
        diagnostics.push(Diagnostic::new(own::TOOLS_MISSING, message));
        return Ok(Vec::new());
    };
    let wrong = |what: &str| UsageError(format!("--tools: {}: {what}", path.display()));
    let Value::Array(tools) = json("--tools", path)? else {
        return Err(wrong("expected a list of tools, as in the `tools` of a Responses request"));
    };
    let untyped = tools.iter().position(|tool| !tool["type"].is_string());
    match untyped {
        Some(index) => Err(wrong(&format!("entry {index} has no `type`"))),
        None => Ok(tools),
    }
}

/// Reads the models that a server lists.
pub(super) fn listed_models(path: Option<&Path>) -> Result<Vec<ModelFacts>, UsageError> {
    let Some(path) = path else { return Ok(Vec::new()) };
    read_listed(&json("--models", path)?).map_err(|error| {
        let form = r#"expected {"models": […]}, the server's response"#;
        UsageError(format!("--models: {}: {form}: {error}", path.display()))
    })
}

/// Reads the JSON schema of the answer.
pub(super) fn output_schema(path: Option<&Path>) -> Result<Option<Value>, UsageError> {
    path.map(|path| json("--output-schema", path)).transpose()
}

/// Reads the thread to continue, from a session file of Codex or of Convoke.
pub(super) fn record(
    path: Option<&Path>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Option<Record>, UsageError> {
    let Some(path) = path else { return Ok(None) };
    let bytes = read("--rollout", path)?;
    // An incomplete last line may end within a character.
    let text = String::from_utf8_lossy(&bytes);
    let mut found = Vec::new();
    let record = record::read(&text, &mut found)
        .map_err(|error| UsageError(format!("--rollout: {}: {error}", path.display())))?;
    diagnostics.extend(found.into_iter().map(|it| it.at_path(path.display().to_string())));
    Ok(Some(record))
}

fn json(flag: &str, path: &Path) -> Result<Value, UsageError> {
    serde_json::from_slice(&read(flag, path)?)
        .map_err(|error| UsageError(format!("{flag}: {} is not JSON: {error}", path.display())))
}

fn read(flag: &str, path: &Path) -> Result<Vec<u8>, UsageError> {
    read_named(path, FileKind::Record)
        .map_err(|error| UsageError(format!("{flag}: cannot read {}: {error}", path.display())))
}
