//! The output of Gemini CLI: its process exits without flushing it, and it does not report why the model stopped.
//!
//! The program writes to a pipe that does not block, and calls `process.exit` while the rest of a long reply,
//! and the closing event after it, are still queued in its memory (measured with 0.61.0: the last seven of
//! fifty lines of 1 MiB are lost, with exit code 0). An answer that a filter or the limit of tokens stopped after some text
//! is a success, and the tokens of an answer that the program gives up are not counted. A script that runs before the program
//! makes the writes block, and adds a line for every answer of the model.

use std::ffi::OsString;

use convoke_protocol::verdict::Failure;

use convoke_agent::adapter::Context;

const NODE_OPTIONS: &str = "NODE_OPTIONS";

/// The script, but for the variables of the processes that the program starts.
const SCRIPT: &str = include_str!("output.cjs");
/// The script for ACP, whose output has no other lines.
const FLUSH: &str = "for (const stream of [process.stdout, process.stderr]) stream?._handle?.setBlocking?.(true);\n";

/// Returns the variable that makes the program flush its output and, where it writes events, report its answers.
pub(super) fn written_whole(
    context: &Context<'_>,
    speaks_acp: bool,
) -> Result<(OsString, OsString), Failure> {
    let users = context.variable(NODE_OPTIONS);
    let users = users.map(|options| options.to_string_lossy()).unwrap_or_default();
    let body = if speaks_acp { FLUSH } else { SCRIPT };
    let script = context.write_private("output.cjs", script(&users, body))?;
    Ok((NODE_OPTIONS.into(), with_script(&users, &script.to_string_lossy()).into()))
}

/// Returns the script. Processes that the program starts get only the user's options.
fn script(users: &str, body: &str) -> String {
    let restore = if users.is_empty() {
        format!("delete process.env.{NODE_OPTIONS};")
    } else {
        format!("process.env.{NODE_OPTIONS} = {};", serde_json::Value::from(users))
    };
    format!("{restore}\n{body}")
}

/// Returns the options of Node.js with a script that runs first. Within quotes, a backslash escapes a character.
fn with_script(users: &str, script: &str) -> String {
    let script = script.replace('\\', "\\\\").replace('"', "\\\"");
    format!("{users} --require \"{script}\"").trim_start().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_the_user_stay_and_come_back() {
        assert_eq!(with_script("", "/a b/x.cjs"), r#"--require "/a b/x.cjs""#);
        assert_eq!(
            with_script("--no-warnings", r#"/a"\b"#),
            r#"--no-warnings --require "/a\"\\b""#
        );
        assert!(script("", SCRIPT).starts_with("delete process.env.NODE_OPTIONS;\n"));
        assert!(
            script("-r \"x\"", FLUSH).starts_with("process.env.NODE_OPTIONS = \"-r \\\"x\\\"\";\n")
        );
    }
}
