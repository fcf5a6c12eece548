//! Parses an agent's requests to its client.

use std::ffi::OsString;
use std::path::PathBuf;

use convoke_core::name::shell_word;
use serde_json::Value;

/// The shell for a command without arguments, which is a shell command line.
const SHELL: &str = "/bin/sh";

/// A request for a file or a terminal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClientRequest {
    Read(PathBuf, ReadRange),
    Write { path: PathBuf, content: String },
    Create(CommandLine),
    Output(String),
    Wait(String),
    Kill(String),
    Release(String),
}

/// The range of lines to read from a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReadRange {
    /// The number of lines before the first one.
    skipped: usize,
    /// The number of lines; `None` for all.
    count: Option<usize>,
}

/// A command with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CommandLine {
    pub command: String,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    pub cwd: Option<PathBuf>,
    /// The maximum size of the kept output.
    pub kept: Option<usize>,
}

impl ClientRequest {
    /// Parses a request; `None` for any other method. The error names the invalid parameter.
    pub fn parse(method: &str, params: &Value) -> Option<Result<Self, String>> {
        let text = |name: &str| {
            let text = params[name].as_str().map(str::to_owned);
            text.filter(|text| !text.contains('\0'))
                .ok_or_else(|| format!("`{name}` must be a string without NUL"))
        };
        let content =
            || params["content"].as_str().map(str::to_owned).ok_or("`content` must be a string");
        let path = || text("path").map(PathBuf::from);
        let terminal = || text("terminalId");
        Some(match method {
            "fs/read_text_file" => {
                path().map(|path| Self::Read(path, ReadRange::of_params(params)))
            }
            "fs/write_text_file" => {
                path().and_then(|path| Ok(Self::Write { path, content: content()? }))
            }
            "terminal/create" => CommandLine::of_params(params).map(Self::Create),
            "terminal/output" => terminal().map(Self::Output),
            "terminal/wait_for_exit" => terminal().map(Self::Wait),
            "terminal/kill" => terminal().map(Self::Kill),
            "terminal/release" => terminal().map(Self::Release),
            _ => return None,
        })
    }
}

impl ReadRange {
    fn of_params(params: &Value) -> Self {
        let number = |name: &str| {
            params[name].as_u64().map(|number| usize::try_from(number).unwrap_or(usize::MAX))
        };
        Self { skipped: number("line").unwrap_or(1).saturating_sub(1), count: number("limit") }
    }

    /// Returns the selected lines of a text, unchanged.
    pub fn select(self, text: String) -> String {
        if self.skipped == 0 && self.count.is_none() {
            return text;
        }
        let lines = text.split_inclusive('\n').skip(self.skipped);
        lines.take(self.count.unwrap_or(usize::MAX)).collect()
    }
}

impl CommandLine {
    fn of_params(params: &Value) -> Result<Self, String> {
        let is_plain = |text: &&str| !text.contains('\0');
        let texts = |name: &str| {
            let list = params[name].as_array().map_or(&[][..], Vec::as_slice).iter();
            let texts: Option<Vec<String>> =
                list.map(|it| it.as_str().filter(is_plain).map(str::to_owned)).collect();
            texts.ok_or_else(|| format!("`{name}` must be a list of strings without NUL"))
        };
        let variables = params["env"].as_array().map_or(&[][..], Vec::as_slice).iter();
        let variables: Option<Vec<(String, String)>> = variables
            .map(|it| {
                let value = it["value"].as_str().filter(is_plain)?;
                Some((it["name"].as_str()?.to_owned(), value.to_owned()))
            })
            .collect();
        let command = params["command"].as_str().filter(is_plain).filter(|it| !it.is_empty());
        Ok(Self {
            command: command.ok_or("`command` must be a string without NUL")?.to_owned(),
            args: texts("args")?,
            env: variables.ok_or("`env` must be a list of `name` and `value`")?,
            cwd: params["cwd"].as_str().filter(is_plain).map(PathBuf::from),
            kept: params["outputByteLimit"]
                .as_u64()
                .map(|limit| usize::try_from(limit).unwrap_or(usize::MAX)),
        })
    }

    /// Returns the program and its arguments.
    pub fn program(&self) -> (PathBuf, Vec<OsString>) {
        if self.args.is_empty() {
            return (SHELL.into(), ["-c", &self.command].map(OsString::from).into());
        }
        (self.command.clone().into(), self.args.iter().map(OsString::from).collect())
    }

    /// Returns the command with its variables as one shell command line.
    pub fn text(&self) -> String {
        let variables =
            self.env.iter().map(|(name, value)| format!("{name}={}", shell_word(value)));
        let mut words: Vec<String> = variables.collect();
        if self.args.is_empty() {
            words.push(self.command.clone());
        } else {
            words.push(shell_word(&self.command));
            words.extend(self.args.iter().map(|word| shell_word(word)));
        }
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_of_a_file_are_counted_from_one() {
        let of = |params: Value| ReadRange::of_params(&params).select("a\nb\r\nc".to_owned());
        assert_eq!(of(json!({})), "a\nb\r\nc");
        assert_eq!(of(json!({"line": 2})), "b\r\nc");
        assert_eq!(of(json!({"line": 2, "limit": 1})), "b\r\n");
        assert_eq!(of(json!({"line": 0, "limit": 1})), "a\n");
        assert_eq!(of(json!({"line": 9})), "");
        assert_eq!(of(json!({"limit": 0})), "");
        assert_eq!(of(json!({"line": -1, "limit": "x"})), "a\nb\r\nc");
    }

    #[test]
    fn wrong_parameters_are_named() {
        let error = |method: &str, params: Value| {
            ClientRequest::parse(method, &params).unwrap().unwrap_err()
        };
        assert!(error("fs/read_text_file", json!({"path": "a\0b"})).contains("`path`"));
        assert!(error("fs/write_text_file", json!({"path": "a"})).contains("`content`"));
        assert!(error("terminal/create", json!({"command": ""})).contains("`command`"));
        let args = json!({"command": "x", "args": [1]});
        assert!(error("terminal/create", args).contains("`args`"));
        assert!(error("terminal/kill", json!({})).contains("`terminalId`"));
        assert!(ClientRequest::parse("terminal/other", &json!({})).is_none());
    }

    #[test]
    fn a_command_is_shown_as_a_shell_would_take_it() {
        let line = |params: Value| CommandLine::of_params(&params).unwrap();
        let shell = line(json!({"command": "ls -l | wc"}));
        assert_eq!((shell.text(), shell.program().0), ("ls -l | wc".into(), SHELL.into()));
        let program = line(json!({"command": "git", "args": ["commit", "-m", "it's"]}));
        assert_eq!(program.text(), r"git commit -m 'it'\''s'");
        assert_eq!(program.program().1.len(), 3);
        let env = json!([{"name": "A", "value": "b c"}]);
        assert_eq!(line(json!({"command": "ls", "env": env})).text(), "A='b c' ls");
    }
}
