//! The runs of a scenario, each as one call of the command.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use convoke_thread::environment::login_shell;
use serde_json::Value;

use crate::Verdict;
use crate::compare::difference;
use crate::lab::Lab;
use crate::scenario::{Scenario, list, texts};

/// Runs a scenario to its end, or to the first difference.
pub(crate) fn all(scenario: &Scenario, packs: &Path) -> Result<Verdict, String> {
    let locked = texts(scenario.get("unreadable"));
    if !locked.is_empty() && reads_everything() {
        let reason = "files must be unreadable, and this user can read every file";
        return Ok(Verdict::Skipped(reason.to_owned()));
    }
    let version = scenario.text("codex").unwrap_or("0.98.0");
    let minor = version.rsplit_once('.').map_or(version, |(minor, _)| minor);
    let pack = packs.join(format!("codex-{minor}"));
    let lab = Lab::lay_out(scenario, &pack)?;
    let shell = lab.path(&shell_of(scenario));
    if let Some(reason) = misplaced_shell(&shell) {
        return Ok(Verdict::Skipped(reason));
    }
    let (mut compared, mut later) = (0, 0);
    for (index, run) in scenario.list("runs").iter().enumerate() {
        lab.bash(&texts(&run["editsBefore"]))?;
        let call = Call { scenario, lab: &lab, pack: &pack, shell: &shell, run, index };
        let numbers = list(&run["requests"]).iter().filter_map(Value::as_u64);
        let numbers: Vec<_> = numbers.filter_map(|it| usize::try_from(it).ok()).collect();
        let captured = numbers.first().and_then(|first| scenario.request(*first));
        match (captured, run["exit"].as_i64()) {
            (Some(captured), _) => call.must_equal(captured)?,
            (None, Some(0)) => return Err("a run made no request and did not fail".to_owned()),
            (None, _) => call.must_fail()?,
        }
        compared += numbers.len().min(1);
        later += numbers.len().saturating_sub(1);
    }
    Ok(Verdict::Passed { compared, later })
}

struct Call<'a> {
    scenario: &'a Scenario,
    lab: &'a Lab,
    pack: &'a Path,
    shell: &'a Path,
    run: &'a Value,
    index: usize,
}

impl Call<'_> {
    fn must_equal(&self, captured: &Value) -> Result<(), String> {
        let mut arguments = self.arguments()?;
        let mut flag = |name: &str, path: PathBuf| {
            let flags = [name.to_owned(), path.to_string_lossy().into_owned()];
            arguments.splice(0..0, flags);
        };
        if let Some(tools) = captured["body"].get("tools") {
            flag("--tools", self.write("tools.json", &responses_tools(tools).to_string())?);
        }
        let models = &self.scenario.get("modelScript")["models"];
        if !models.is_null() {
            let answer = match models {
                Value::Array(_) => serde_json::json!({"models": models}),
                other => other.clone(),
            };
            flag("--models", self.write("models.json", &answer.to_string())?);
        }
        if self.resumes() {
            flag("--rollout", self.write("rollout.jsonl", &self.rollout()?)?);
        }
        let output = self.output(&arguments)?;
        let told = self.lab.map_back(&String::from_utf8_lossy(&output.stderr));
        if !output.status.success() {
            return Err(format!("run {}: the command failed: {told}", self.index + 1));
        }
        let path = told.lines().next().and_then(|line| line.strip_prefix("POST "));
        let body = self.lab.map_back(&String::from_utf8_lossy(&output.stdout));
        let body = serde_json::from_str(&body).map_err(|it| format!("the body: {it}"))?;
        let id = self.thread_id();
        match difference(captured, path.unwrap_or(""), &body, &id) {
            Some(difference) => Err(format!("run {}: {difference}", self.index + 1)),
            None => Ok(()),
        }
    }

    /// The real program refused this configuration, and so must we.
    fn must_fail(&self) -> Result<(), String> {
        match self.output(&self.arguments()?)?.status.code() {
            Some(2) => Ok(()),
            code => Err(format!("the real program failed, and the command ends with {code:?}")),
        }
    }

    fn output(&self, arguments: &[String]) -> Result<Output, String> {
        let scenario = self.scenario;
        let place = |key: &str| self.lab.path(scenario.text(key).unwrap_or("/lab"));
        let cwd = self.run["cwd"].as_str().map(|it| self.lab.path(it));
        let environment = scenario.get("env").as_object().into_iter().flatten();
        let environment =
            environment.filter_map(|(name, value)| Some((name, self.lab.map(value.as_str()?))));
        let mut child = Command::new(env!("CARGO_BIN_EXE_convoke"))
            .args(["request", "--explain"])
            .arg("--pack")
            .arg(self.pack)
            .arg("--shell")
            .arg(self.shell)
            .args(arguments)
            .current_dir(cwd.unwrap_or_else(|| place("cwd")))
            .env_clear()
            .envs(environment)
            .env("HOME", place("home"))
            .env("CODEX_HOME", place("codexHome"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("the command does not start: {error}"))?;
        let input = self.run["stdin"].as_str().or(scenario.text("stdin")).unwrap_or("");
        if let Some(mut stdin) = child.stdin.take() {
            // A command that has its prompt already does not read this.
            drop(stdin.write_all(input.as_bytes()));
        }
        child.wait_with_output().map_err(|error| error.to_string())
    }

    /// Returns the arguments of `codex exec` that affect the request.
    fn arguments(&self) -> Result<Vec<String>, String> {
        let given = texts(&self.run["argv"]);
        let mut rest = given.iter().skip(1).peekable();
        let mut arguments = Vec::new();
        let mut words = 0;
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "exec" | "e" if words == 0 => words = 1,
                "resume" if words == 1 => words = 2,
                "--last" | "--all" | "--json" | "--experimental-json" | "--ephemeral" => {}
                // `codex exec` overrules the policy that it is given.
                "-o" | "--output-last-message" | "--color" | "-a" | "--ask-for-approval" => {
                    rest.next().ok_or_else(|| format!("{argument} has no value"))?;
                }
                "--" => {
                    arguments.push(argument.clone());
                    arguments.extend(rest.by_ref().map(|it| self.lab.map(it)));
                }
                // The id of the session to resume.
                id if words == 2 && is_thread_id(id) => words = 3,
                _ => arguments.push(self.lab.map(argument)),
            }
        }
        Ok(arguments)
    }

    fn resumes(&self) -> bool {
        texts(&self.run["argv"]).iter().any(|argument| argument == "resume")
    }

    /// Returns the id of the thread: the one that is resumed, or that of a new one.
    fn thread_id(&self) -> String {
        let metas = self.scenario.rollouts().iter().flatten();
        let mut meta =
            metas.filter(|line| line["type"] == "session_meta").map(|line| &line["payload"]);
        let resumed = meta.find_map(|meta| meta["id"].as_str());
        let resumed = resumed.filter(|_| self.resumes());
        resumed.unwrap_or("00000000-0000-7000-8000-000000000000").to_owned()
    }

    /// Returns the session file as it was before this run: every run of `codex exec` begins by
    /// telling the model its permissions.
    fn rollout(&self) -> Result<String, String> {
        let [lines] = self.scenario.rollouts() else {
            return Err("there is not exactly one session file to resume".to_owned());
        };
        let begins_run = |line: &Value| {
            let text = line["payload"]["content"][0]["text"].as_str();
            line["type"] == "response_item"
                && text.is_some_and(|text| text.starts_with("<permissions instructions>"))
        };
        let starts = lines.iter().enumerate().filter(|(_, line)| begins_run(line));
        let end = starts.map(|(at, _)| at).nth(self.index);
        let before = &lines[..end.ok_or("the session file does not show this run")?];
        Ok(before.iter().map(|line| self.lab.map(&format!("{line}\n"))).collect())
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.lab.path("/lab").with_file_name(name);
        std::fs::write(&path, text).map_err(|error| error.to_string())?;
        Ok(path)
    }
}

/// Returns tools in the form of the Responses API, in whatever form they were sent.
fn responses_tools(tools: &Value) -> Value {
    let form = |tool: &Value| match tool.get("function") {
        Some(Value::Object(function)) => {
            let mut tool = serde_json::json!({"type": "function"});
            for (key, value) in function {
                tool[key] = value.clone();
            }
            tool
        }
        _ => tool.clone(),
    };
    list(tools).iter().map(form).collect()
}

fn is_thread_id(word: &str) -> bool {
    word.len() == 36 && word.bytes().all(|it| it == b'-' || it.is_ascii_hexdigit())
}

fn shell_of(scenario: &Scenario) -> String {
    let passwd = scenario.list("files").iter().find(|file| file["path"] == "/lab/passwd");
    let uid = scenario.get("uid").as_u64().and_then(|it| u32::try_from(it).ok()).unwrap_or(0);
    let shell = passwd.and_then(|file| login_shell(file["content"].as_str()?, uid));
    shell.unwrap_or(Path::new("/bin/bash")).to_string_lossy().into_owned()
}

/// The captures were made where bash and sh were the only shells.
fn misplaced_shell(login: &Path) -> Option<String> {
    let folders = ["/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"].map(Path::new);
    let installed = |name: &str| folders.iter().any(|folder| folder.join(name).exists());
    let name = login.file_name()?.to_str()?;
    if !login.exists() && !["bash", "sh"].contains(&name) && installed(name) {
        return Some(format!("{name} is installed here, and was not where this was captured"));
    }
    (!installed("bash")).then(|| "bash is not installed here".to_owned())
}

fn reads_everything() -> bool {
    nix::unistd::Uid::effective().is_root()
}
