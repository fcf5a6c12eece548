//! The real CLIs in a real terminal: what arrives at the server is what arrives without Convoke, but for ids and dates.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::installed::programs;
use crate::person::Person;
use crate::terminal::Terminal;
use crate::{KEY, model_server::Got};

const PROMPT: &str = "Say \"hello\" to me.";
const REPLY: &str = "Behind the relay.";

/// A CLI as it is used here.
struct Cli {
    name: &'static str,
    installed: &'static str,
    /// The command without Convoke.
    alone: &'static str,
    /// What it shows when it waits for a prompt.
    ready: &'static str,
    /// What is typed to end it.
    leave: &'static str,
}

const CLAUDE: Cli = Cli {
    name: "claude",
    installed: "claude-2.1.325",
    alone: "claude",
    ready: "shift+tab to cycle",
    leave: "/exit",
};

const CODEX: Cli = Cli {
    name: "codex",
    installed: "codex-0.166.0",
    // A daemon would outlive the test.
    alone: "codex --no-daemon",
    ready: "Ask Codex to do anything",
    leave: "/quit",
};

const GEMINI: Cli = Cli {
    name: "gemini",
    installed: "gemini-0.61.0",
    alone: "gemini",
    ready: "Type your message",
    leave: "/quit",
};

/// A person with a CLI; the processes that it leaves behind end with the person.
struct CliUser {
    person: Person,
}

impl CliUser {
    fn new(cli: &Cli) -> Option<Self> {
        let directory = programs(cli.installed)?;
        let mut person = Person::new("exit 1");
        let bin = person.home.path().join("bin");
        std::fs::remove_file(bin.join("claude")).unwrap();
        std::os::unix::fs::symlink(directory.join(cli.name), bin.join(cli.name)).unwrap();
        person.env = person.server.environment(cli.name);
        let variables =
            [("TERM", "screen-256color"), ("COLORTERM", "truecolor"), ("LANG", "C.UTF-8")];
        person.env.extend(variables.map(|(name, value)| (name, value.to_owned())));
        let others = std::env::var("PATH").unwrap();
        person.env.push(("PATH", format!("{}:{}:{others}", bin.display(), directory.display())));
        let (home, project) = (person.home.path(), person.project.path().canonicalize().unwrap());
        match cli.name {
            "claude" => {
                let trusted =
                    json!({"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true});
                let state = json!({
                    "hasCompletedOnboarding": true, "theme": "dark", "lastOnboardingVersion": "2.1.325",
                    "projects": {project.to_str().unwrap(): trusted},
                    "customApiKeyResponses": {"approved": [&KEY[KEY.len() - 20..]], "rejected": []},
                });
                std::fs::write(home.join(".claude.json"), state.to_string()).unwrap();
                person.env.push(("DISABLE_AUTOUPDATER", "1".to_owned()));
                person.env.push(("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()));
            }
            "gemini" => {
                let settings = json!({
                    "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": true}},
                    "general": {"enableAutoUpdate": false}, "ui": {"hideTips": true},
                });
                let trusted = json!({project.to_str().unwrap(): "TRUST_FOLDER"});
                std::fs::create_dir(home.join(".gemini")).unwrap();
                std::fs::write(home.join(".gemini/settings.json"), settings.to_string()).unwrap();
                std::fs::write(home.join(".gemini/trustedFolders.json"), trusted.to_string())
                    .unwrap();
            }
            _ => {
                let settings = format!(
                    "openai_base_url = \"{}/v1\"\ncheck_for_update_on_startup = false\n\n\
                     [projects.{:?}]\ntrust_level = \"trusted\"\n",
                    person.server.url(),
                    project.to_str().unwrap()
                );
                std::fs::create_dir(home.join(".codex")).unwrap();
                std::fs::write(home.join(".codex/config.toml"), settings).unwrap();
                let auth = json!({"auth_mode": "apikey", "OPENAI_API_KEY": KEY}).to_string();
                std::fs::write(home.join(".codex/auth.json"), auth).unwrap();
            }
        }
        Some(Self { person })
    }

    /// Has one exchange in a terminal. Returns the calls, and the state of the terminal before and after.
    fn converse(&self, cli: &Cli, command: &str) -> Option<(Vec<Got>, [String; 2])> {
        let Self { person } = self;
        let project = person.project.path();
        let terminal = Terminal::open(&person.command("sh", &[]))?;
        let before = terminal.state(project);
        terminal.enter(&format!("clear; {command}; echo \"code: $?\""));
        terminal.wait_for(cli.ready);
        terminal.submit(PROMPT);
        terminal.wait_for(REPLY);
        terminal.submit(cli.leave);
        let screen = terminal.wait_until("its end", |screen| screen.contains("\ncode: "));
        assert!(screen.contains("\ncode: 0"), "{screen}");
        let after = terminal.state(project);
        Some((person.take_calls(), [before, after]))
    }

    /// Returns a body as text without ids, dates and the names of this user's directories.
    fn comparable(&self, body: &[u8]) -> String {
        let mut body: Value = serde_json::from_slice(body).unwrap();
        for place in
            ["/metadata/user_id", "/client_metadata", "/prompt_cache_key", "/system/0/text"]
        {
            if let Some(value) = body.pointer_mut(place) {
                *value = json!("[masked]");
            }
        }
        let Person { home, project, temporary, .. } = &self.person;
        let mut text = serde_json::to_string_pretty(&body).unwrap();
        for (directory, name) in [(home, "HOME"), (project, "PROJECT"), (temporary, "TEMPORARY")] {
            let own = directory.path().file_name().unwrap().to_str().unwrap();
            text = text.replace(own, name).replace(&own.to_ascii_lowercase(), name);
        }
        without_ids(&text)
    }
}

impl Drop for CliUser {
    fn drop(&mut self) {
        // Of all processes only those whose home is this one.
        let home = format!("HOME={}", self.person.home.path().display());
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            let is_own = environment.split(|byte| *byte == 0).any(|it| it == home.as_bytes());
            if let (true, Some(pid)) = (is_own, entry.file_name().to_str()) {
                let _ = Command::new("kill").args(["-KILL", pid]).output();
            }
        }
    }
}

/// Replaces words that are ids, or parts of dates and times.
fn without_ids(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '.');
    let mut result = String::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let word = &rest[..end];
        let digits = word.chars().filter(char::is_ascii_digit).count();
        let is_id = word.len() >= 16 && digits >= 5;
        let is_date =
            digits >= 6 && word.chars().all(|c| c.is_ascii_digit() || "-:.TZ".contains(c));
        result.push_str(if is_id || is_date { "[id]" } else { word });
        rest = &rest[end..];
        let next = rest.find(is_word).unwrap_or(rest.len());
        result.push_str(&rest[..next]);
        rest = &rest[next..];
    }
    result
}

fn is_untouched(cli: &Cli) {
    let (Some(alone), Some(watched)) = (CliUser::new(cli), CliUser::new(cli)) else { return };
    let Some((direct, states)) = alone.converse(cli, cli.alone) else { return };
    assert_eq!(states[0], states[1], "{}: without Convoke", cli.name);
    let command = format!("{} watch --quiet -- {}", env!("CARGO_BIN_EXE_convoke"), cli.name);
    let Some((sent, states)) = watched.converse(cli, &command) else { return };
    assert_eq!(states[0], states[1], "{}: the terminal is as it was", cli.name);
    let bodies = |user: &CliUser, calls: &[Got]| -> Vec<String> {
        let mut bodies: Vec<_> = calls.iter().map(|it| user.comparable(&it.body)).collect();
        bodies.sort_unstable();
        bodies
    };
    let (direct, arrived) = (bodies(&alone, &direct), bodies(&watched, &sent));
    assert_eq!(direct.len(), arrived.len(), "{}", cli.name);
    for (direct, arrived) in direct.iter().zip(&arrived) {
        let differs = direct.lines().zip(arrived.lines()).find(|(one, other)| one != other);
        assert_eq!(differs, None, "{}", cli.name);
        assert_eq!(direct.lines().count(), arrived.lines().count(), "{}", cli.name);
    }
    let stored = watched.person.convoke(&["sessions", "show", "last", "--request", "--json"]);
    let stored: Vec<Value> = stored.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(stored.len(), sent.len(), "{}", cli.name);
    assert!(stored.iter().any(|it| it["body"].as_str().unwrap().contains("hello")), "{stored:?}");
}

#[test]
fn claude_in_a_terminal_sends_what_it_sends_without_convoke() {
    is_untouched(&CLAUDE);
}

#[test]
fn codex_in_a_terminal_sends_what_it_sends_without_convoke() {
    is_untouched(&CODEX);
}

#[test]
fn gemini_in_a_terminal_sends_what_it_sends_without_convoke() {
    is_untouched(&GEMINI);
}

#[test]
fn codex_does_not_hand_its_turns_to_a_daemon_that_runs_already() {
    let Some(user) = CliUser::new(&CODEX) else { return };
    let Some((direct, _)) = user.converse(&CODEX, "codex") else { return };
    assert!(!direct.is_empty());
    let sockets = find(&user.person.home.path().join(".codex"), ".sock");
    assert!(sockets, "the daemon of the run before listens");
    let command = format!("{} watch --quiet -- codex", env!("CARGO_BIN_EXE_convoke"));
    let Some((sent, _)) = user.converse(&CODEX, &command) else { return };
    let stored = user.person.convoke(&["sessions", "show", "last", "--request", "--json"]);
    assert_eq!(stored.lines().count(), sent.len());
}

/// Returns whether a file below a directory has a name that ends like this.
fn find(directory: &Path, end: &str) -> bool {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        name.ends_with(end)
            || entry.file_type().is_ok_and(|it| it.is_dir()) && find(&entry.path(), end)
    })
}
