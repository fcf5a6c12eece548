//! Replays a scenario: creates its files, runs its turns, and compares every request.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use convoke_files::{Disk, FileKind, Files};
use convoke_thread::config::{Config, Machine, Overrides};
use convoke_thread::environment::{login_shell, shell_name};
use convoke_thread::item::ResponseItem;
use convoke_thread::model::{ModelFacts, read_listed};
use convoke_thread::pack::Pack;
use convoke_thread::prompt::Request;
use convoke_thread::record::{Event, Record};
use convoke_thread::thread::{Setup, Step, Thread, TurnOverrides};
use convoke_thread::user_input::{UserInput, decode_prompt};
use serde_json::Value;

use crate::argv::{Exec, Resume};
use crate::client;
use crate::compare::difference;
use crate::scenario::{Scenario, list, texts};
use crate::script::Script;
use crate::sources::Sources;
use crate::tools::Tools;
use crate::tree::{Tree, pack_folder};

/// Replays a scenario and returns the records of its threads. An error names the first difference.
pub(crate) fn play(scenario: &Scenario, packs: &Path) -> Result<Vec<Record>, String> {
    let folder = pack_folder(scenario, packs);
    let pack = Pack::load(&Disk, &folder).map_err(|error| with_causes(&error))?;
    let script = scenario.get("modelScript");
    let models = match &script["models"] {
        Value::Null => Vec::new(),
        listed => read_listed(listed).map_err(|error| with_causes(&error))?,
    };
    let mut player = Player {
        scenario,
        tree: Tree::lay_out(scenario, packs)?,
        models,
        script: Script::new(script),
        sources: Sources::new(scenario, &pack, &folder),
        pack,
        tools: Tools::new(scenario),
        decisions: scenario.list("decisions").iter().cloned().collect(),
        records: Vec::new(),
        compared: 0,
    };
    let is_app = scenario.text("driver") == Some("app");
    // A long-lived program counts as one run, even with restarts.
    let runs = scenario.list("runs").iter();
    for run in runs.take(if is_app { 1 } else { usize::MAX }) {
        player.run(run)?;
    }
    let captured = scenario.requests().len();
    if player.compared != captured {
        let compared = player.compared;
        return Err(format!("{compared} of {captured} requests were compared"));
    }
    Ok(player.records)
}

struct Player<'s> {
    scenario: &'s Scenario,
    tree: Tree,
    pack: Pack,
    models: Vec<ModelFacts>,
    sources: Sources,
    script: Script<'s>,
    tools: Tools<'s>,
    decisions: VecDeque<Value>,
    /// The records of the threads so far.
    records: Vec<Record>,
    compared: usize,
}

/// The parts of a player that a turn changes, without the files that threads borrow.
struct ScenarioThread<'p, 's> {
    scenario: &'s Scenario,
    tree: &'p Tree,
    sources: &'p Sources,
    script: &'p mut Script<'s>,
    tools: &'p mut Tools<'s>,
    decisions: &'p mut VecDeque<Value>,
    compared: &'p mut usize,
}

impl Player<'_> {
    fn run(&mut self, run: &Value) -> Result<(), String> {
        self.tree.run(&texts(&run["editsBefore"]))?;
        let machine = self.machine(run);
        match self.scenario.text("driver") {
            Some("exec") => self.exec(run, &machine),
            _ => self.app(run, &machine),
        }
    }

    fn machine(&self, run: &Value) -> Machine {
        let scenario = self.scenario;
        let env = |name: &str| scenario.get("env")[name].as_str();
        let passwd = self.tree.read_to_string("/lab/passwd");
        let uid = scenario.get("uid").as_u64().unwrap_or(0);
        let uid = u32::try_from(uid).unwrap_or(0);
        let shell = passwd.as_deref().and_then(|it| login_shell(it, uid));
        let shell = shell.unwrap_or(Path::new("/bin/bash"));
        let search_path = ["/bin".into(), "/usr/bin".into()];
        let path = |key: &str| scenario.text(key).map(PathBuf::from);
        let cwd = run["cwd"].as_str().or(scenario.text("cwd"));
        let cwd = PathBuf::from(cwd.unwrap_or_default());
        Machine {
            home: path("home"),
            codex_home: path("codexHome").unwrap_or_default(),
            // A process sees its directory without links.
            cwd: self.tree.canonicalize(&cwd).unwrap_or(cwd),
            shell: shell_name(&self.tree, Some(shell), &search_path).to_owned(),
            tmpdir: env("TMPDIR").map(PathBuf::from),
            openai_base_url: env("OPENAI_BASE_URL").map(str::to_owned),
        }
    }

    fn exec(&mut self, run: &Value, machine: &Machine) -> Result<(), String> {
        let requests = numbers(&run["requests"]);
        if requests.is_empty() && run["exit"].as_i64() != Some(0) {
            return Ok(());
        }
        let exec = Exec::parse(&texts(&run["argv"]))?;
        let config = Config::load(&self.tree, machine, self.pack.shape, &exec.overrides);
        let config = config.map_err(|error| with_causes(&error))?;
        let images = exec.images.iter().cloned().map(UserInput::LocalImage);
        let stdin = || {
            let text = run["stdin"].as_str().or(self.scenario.text("stdin"));
            let mut encoded = ["stdin_b64", "stdinBase64"].iter();
            let encoded = encoded.find_map(|key| run[*key].as_str());
            let bytes = match encoded {
                Some(encoded) => STANDARD.decode(encoded).map_err(|wrong| wrong.to_string())?,
                None => text.unwrap_or_default().as_bytes().to_vec(),
            };
            decode_prompt(&bytes).map_err(|wrong| wrong.to_string())
        };
        let prompt = match exec.prompt.as_deref() {
            None | Some("-") => stdin()?,
            Some(prompt) => prompt.to_owned(),
        };
        let mut inputs: Vec<_> = images.collect();
        inputs.push(UserInput::Text(prompt));
        let overrides = TurnOverrides {
            output_schema: match &exec.output_schema {
                Some(path) => Some(self.read_json(&machine.cwd.join(path))?),
                None => None,
            },
            ..TurnOverrides::default()
        };

        let id = format!("thread-{}", self.records.len() + 1);
        let setup =
            Setup { files: &self.tree, pack: &self.pack, machine, listed_models: &self.models };
        let mut scenario = ScenarioThread {
            scenario: self.scenario,
            tree: &self.tree,
            sources: &self.sources,
            script: &mut self.script,
            tools: &mut self.tools,
            decisions: &mut self.decisions,
            compared: &mut self.compared,
        };
        let known = exec.resume.and_then(|which| match which {
            Resume::Last => {
                let here = |it: &Record| it.cwd.as_ref() == Some(&config.cwd);
                self.records.iter().rposition(here)
            }
            Resume::LastOfAll => self.records.len().checked_sub(1),
            // The ids of a capture are not ours.
            Resume::Id(id) => {
                let named = self.records.iter().position(|it| it.id == id);
                named.or_else(|| self.records.len().checked_sub(1))
            }
        });
        // Without a session to resume, the program starts one.
        let (mut thread, mut record) = match known {
            None => {
                let thread =
                    Thread::start(setup, config, &id).map_err(|error| with_causes(&error))?;
                let record = thread.record_start();
                (thread, record)
            }
            Some(known) => {
                let record = self.records.remove(known);
                let thread =
                    Thread::resume(setup, config, &record).map_err(|it| with_causes(&it))?;
                (thread, record)
            }
        };
        scenario.turn(&mut thread, &requests, inputs, &overrides, None)?;
        record.events.extend(thread.take_events());
        drop(thread);
        self.records.push(record);
        Ok(())
    }

    fn read_json(&self, path: &Path) -> Result<Value, String> {
        let text =
            self.tree.read_text(path, FileKind::Record).map_err(|error| with_causes(&error))?;
        serde_json::from_str(&text).map_err(|error| with_causes(&error))
    }

    fn app(&mut self, run: &Value, machine: &Machine) -> Result<(), String> {
        let setup =
            Setup { files: &self.tree, pack: &self.pack, machine, listed_models: &self.models };
        let mut scenario = ScenarioThread {
            scenario: self.scenario,
            tree: &self.tree,
            sources: &self.sources,
            script: &mut self.script,
            tools: &mut self.tools,
            decisions: &mut self.decisions,
            compared: &mut self.compared,
        };
        let mut client =
            Client { setup, scenario: self.scenario, records: &mut self.records, current: None };
        let steps = self.scenario.list("steps").iter();
        for (step, made) in steps.zip(list(&run["steps"])) {
            let requests = numbers(&made["requests"]);
            let at = |difference: String| format!("step {}: {difference}", step["op"]);
            client.step(step, &requests, &mut scenario).map_err(at)?;
        }
        Ok(())
    }
}

/// A client of the long-lived program.
struct Client<'c, 's> {
    setup: Setup<'c>,
    scenario: &'s Scenario,
    records: &'c mut Vec<Record>,
    /// The current thread, and the index of its record.
    current: Option<(Thread<'c>, usize)>,
}

impl Client<'_, '_> {
    fn step(
        &mut self,
        step: &Value,
        requests: &[usize],
        scenario: &mut ScenarioThread<'_, '_>,
    ) -> Result<(), String> {
        let params = &step["params"];
        match step["op"].as_str().unwrap_or("") {
            "start" => {
                let config = self.config(params, self.scenario.text("cwd").map(PathBuf::from))?;
                let id = self.next_id();
                let thread =
                    Thread::start(self.setup, config, &id).map_err(|it| with_causes(&it))?;
                self.records.push(thread.record_start());
                self.current = Some((thread, self.records.len() - 1));
            }
            "resume" if params["history"].is_array() => {
                let items = list(&params["history"]).iter();
                let items = items.map(|item| ResponseItem::try_from(item.clone()));
                let events = items.map(|item| item.map(|item| Event::Item(item.into())));
                let events: Result<_, _> = events.collect();
                let record = Record {
                    events: events.map_err(|wrong: _| format!("{wrong}"))?,
                    ..Record::default()
                };
                let cwd = self.scenario.text("cwd").map(PathBuf::from);
                self.fork(&record, params, cwd)?;
            }
            "resume" => {
                let at = self.last_record()?;
                let record = self.records[at].clone();
                let config = self.config(params, record.cwd.clone())?;
                let thread = Thread::resume(self.setup, config, &record);
                self.current = Some((thread.map_err(|it| with_causes(&it))?, at));
            }
            "fork" => {
                let record = self.records[self.last_record()?].clone();
                self.fork(&record, params, record.cwd.clone())?;
            }
            "turn" => {
                let inputs = client::inputs(step)?;
                let overrides = client::turn_overrides(params)?;
                let interrupt = step["interrupt_after_requests"].as_u64();
                let interrupt = interrupt.map(|it| usize::try_from(it).unwrap_or(usize::MAX));
                let (thread, _) = self.current.as_mut().ok_or("there is no thread")?;
                scenario.turn(thread, requests, inputs, &overrides, interrupt)?;
            }
            "compact" => {
                let (thread, _) = self.current.as_mut().ok_or("there is no thread")?;
                let first = thread.begin_compaction().map_err(|it| with_causes(&it))?;
                scenario.drive(thread, first, requests, None)?;
            }
            "rollback" => {
                let turns = [&step["n"], &params["numTurns"], &params["n"]];
                let turns = turns.into_iter().find_map(Value::as_u64).unwrap_or(1);
                let (thread, _) = self.current.as_mut().ok_or("there is no thread")?;
                thread.roll_back(usize::try_from(turns).unwrap_or(usize::MAX));
            }
            // The thread continues from its record.
            "restart" => {}
            "sh" => {
                let fields = step.as_object().into_iter().flatten();
                let commands = fields.filter(|(key, _)| *key != "op");
                let commands = commands.filter_map(|(_, it)| it.as_str().map(str::to_owned));
                scenario.tree.run(&commands.collect::<Vec<_>>())?;
            }
            _ if requests.is_empty() => {}
            other => return Err(format!("`{other}` made requests and is not known")),
        }
        if let Some((thread, at)) = &mut self.current {
            self.records[*at].events.extend(thread.take_events());
        }
        Ok(())
    }

    fn fork(
        &mut self,
        record: &Record,
        params: &Value,
        cwd: Option<PathBuf>,
    ) -> Result<(), String> {
        let config = self.config(params, cwd)?;
        let id = self.next_id();
        let thread =
            Thread::fork(self.setup, config, record, &id).map_err(|it| with_causes(&it))?;
        self.records.push(thread.record_start());
        self.current = Some((thread, self.records.len() - 1));
        Ok(())
    }

    fn config(&self, params: &Value, cwd: Option<PathBuf>) -> Result<Config, String> {
        let overrides: Overrides = client::overrides(params, cwd)?;
        let shape = self.setup.pack.shape;
        Config::load(self.setup.files, self.setup.machine, shape, &overrides)
            .map_err(|error| with_causes(&error))
    }

    fn last_record(&self) -> Result<usize, String> {
        let current = self.current.as_ref().map(|(_, at)| *at);
        let last = current.or_else(|| self.records.len().checked_sub(1));
        last.ok_or_else(|| "there is no thread yet".to_owned())
    }

    fn next_id(&self) -> String {
        format!("thread-{}", self.records.len() + 1)
    }
}

impl ScenarioThread<'_, '_> {
    fn turn(
        &mut self,
        thread: &mut Thread<'_>,
        requests: &[usize],
        inputs: Vec<UserInput>,
        overrides: &TurnOverrides,
        interrupt: Option<usize>,
    ) -> Result<(), String> {
        thread.set_tools(self.offered_tools(requests));
        let first = thread.begin_turn(inputs, overrides).map_err(|it| with_causes(&it))?;
        self.drive(thread, first, requests, interrupt)
    }

    /// Answers requests and runs tools until a turn is over.
    fn drive(
        &mut self,
        thread: &mut Thread<'_>,
        first: Step,
        requests: &[usize],
        interrupt: Option<usize>,
    ) -> Result<(), String> {
        let mut step = first;
        let mut sent = 0;
        loop {
            step = match step {
                Step::Send(request) => {
                    let number = requests.get(sent).copied();
                    self.compare(number, &request, thread.id())?;
                    sent += 1;
                    let answer = self.script.next(request.path, &request.body)?;
                    thread.set_tools(self.offered_tools(&requests[sent..]));
                    let next = thread.answer(answer).map_err(|it| with_causes(&it))?;
                    if interrupt == Some(sent) {
                        let results = match next {
                            Step::RunTools(calls) => self.results(thread, &calls, number),
                            Step::Send(_) | Step::Done(_) => Vec::new(),
                        };
                        thread.interrupt(results);
                        break;
                    }
                    next
                }
                Step::RunTools(calls) => {
                    let number = sent.checked_sub(1).map(|last| requests[last]);
                    let cancelled = self.decide(thread, calls.len());
                    let results = self.results(thread, &calls, number);
                    if cancelled && requests.len() == sent {
                        thread.interrupt(results);
                        break;
                    }
                    thread.tool_results(results).map_err(|it| with_causes(&it))?
                }
                Step::Done(_) => break,
            };
        }
        match requests.get(sent) {
            None => Ok(()),
            Some(number) => Err(format!("request {number} was sent, and ours would not be")),
        }
    }

    /// Applies the user's decisions about some calls. Returns whether one of them ends the turn.
    fn decide(&mut self, thread: &mut Thread<'_>, calls: usize) -> bool {
        let mut cancelled = false;
        for _ in 0..calls {
            match self.decisions.pop_front() {
                Some(Value::String(decision)) => cancelled |= decision == "cancel",
                Some(decision) => {
                    if let Some(prefix) = client::approved_prefix(&decision) {
                        let home = self.scenario.text("codexHome").unwrap_or_default();
                        let rules = Path::new(home).join("rules/default.rules");
                        let rule = format!("prefix_rule(pattern={prefix:?}, decision=\"allow\")\n");
                        self.tree.append(&rules, &rule);
                        thread.approve_prefix(prefix);
                    }
                }
                None => break,
            }
        }
        cancelled
    }

    fn results(
        &mut self,
        thread: &Thread<'_>,
        calls: &[ResponseItem],
        number: Option<usize>,
    ) -> Vec<ResponseItem> {
        let cwd = &thread.settings().cwd;
        self.tools.run(calls, number.unwrap_or(0), cwd, self.tree)
    }

    /// Returns the tools that the next of these requests with tools offered.
    fn offered_tools(&self, requests: &[usize]) -> Vec<Value> {
        let tools = requests.iter().filter_map(|number| {
            let body = &self.scenario.request(*number)?["body"];
            Some(list(&body["tools"])).filter(|tools| !tools.is_empty())
        });
        let tools = tools.map(|tools| tools.iter().map(client::as_responses_tool).collect());
        tools.take(1).next().unwrap_or_default()
    }

    fn compare(
        &mut self,
        number: Option<usize>,
        request: &Request,
        id: &str,
    ) -> Result<(), String> {
        let Some(number) = number else {
            return Err(format!("no request was sent, and ours would go to {}", request.path));
        };
        let captured = self.scenario.request(number);
        let captured = captured.ok_or_else(|| format!("request {number} is missing"))?;
        let body: Value =
            serde_json::from_str(&request.body).map_err(|error| with_causes(&error))?;
        if let Some(difference) = difference(captured, request.path, &body, id) {
            return Err(format!("request {number}: {difference}"));
        }
        self.sources
            .check(request, self.tree)
            .map_err(|why| format!("the ledger of request {number}: {why}"))?;
        *self.compared += 1;
        Ok(())
    }
}

fn numbers(value: &Value) -> Vec<usize> {
    let numbers = list(value).iter().filter_map(Value::as_u64);
    numbers.filter_map(|it| usize::try_from(it).ok()).collect()
}

/// Returns an error's text with its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
