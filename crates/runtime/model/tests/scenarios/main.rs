//! Sends the requests of captured single turns over HTTP, and compares the received bytes with those that
//! `convoke-thread` built, byte for byte, and with those that the real program sent.
//!
//! `CONVOKE_SCENARIOS` and `CONVOKE_SHARED` name the captures and the packs.

#![allow(clippy::print_stdout, clippy::exit, missing_docs)]

#[allow(dead_code, reason = "shared with the scenarios of convoke-thread")]
#[path = "../../../../engine/thread/tests/scenarios/argv.rs"]
mod argv;
#[allow(dead_code, reason = "shared with the scenarios of convoke-thread")]
#[path = "../../../../engine/thread/tests/scenarios/client.rs"]
mod client;
#[allow(dead_code, reason = "shared with the scenarios of convoke-thread")]
#[path = "../../../../engine/thread/tests/scenarios/compare.rs"]
mod compare;
#[path = "../../../../engine/thread/tests/scenarios/place.rs"]
mod place;
#[allow(dead_code, reason = "shared with the scenarios of convoke-thread")]
#[path = "../../../../engine/thread/tests/scenarios/scenario.rs"]
mod scenario;
#[allow(dead_code, reason = "shared with the scenarios of convoke-thread")]
#[path = "../../../../engine/thread/tests/scenarios/tree.rs"]
mod tree;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use convoke_files::Disk;
use convoke_model::{CallEvent, CallLimits, Client, Endpoint, Proxies};
use convoke_rehearsal::{Script, start};
use convoke_thread::config::{Config, Machine, Wire};
use convoke_thread::environment::shell_name;
use convoke_thread::model::read_listed;
use convoke_thread::pack::Pack;
use convoke_thread::prompt::Request;
use convoke_thread::thread::{Setup, Step, Thread, TurnOverrides};
use convoke_thread::user_input::{UserInput, decode_prompt};
use serde_json::Value;

use argv::Exec;
use scenario::{Scenario, list, texts};
use tree::{Tree, pack_folder};

fn main() {
    let Some((folders, packs)) = place::scenarios() else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.unwrap_or_else(|error| stop(&error.to_string()));
    let [mut passed, mut failed, mut skipped] = [0; 3];
    for folder in folders {
        match runtime.block_on(check(&folder, &packs)) {
            Ok(Checked::Equal) => passed += 1,
            Ok(Checked::OutOfReach) => skipped += 1,
            Err(difference) => {
                failed += 1;
                println!("FAILED {}: {difference}", folder.display());
            }
        }
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed > 0 || passed == 0 {
        std::process::exit(1);
    }
}

fn stop(why: &str) -> ! {
    println!("{why}");
    std::process::exit(1);
}

enum Checked {
    Equal,
    /// The scenario is not a single turn of one request.
    OutOfReach,
}

async fn check(folder: &Path, packs: &Path) -> Result<Checked, String> {
    let scenario = Scenario::read(folder)?;
    let [run] = scenario.list("runs") else { return Ok(Checked::OutOfReach) };
    let [captured] = scenario.requests() else { return Ok(Checked::OutOfReach) };
    if scenario.text("driver") != Some("exec") {
        return Ok(Checked::OutOfReach);
    }
    let (request, wire) = request(&scenario, run, captured, packs)?;
    let (path, body) = sent(&request, wire).await?;
    if body != request.body.as_bytes() {
        return Err("other bytes left than the thread made".to_owned());
    }
    let body: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
    let path = path.strip_prefix("/v1").unwrap_or(&path);
    match compare::difference(captured, path, &body, THREAD) {
        None => Ok(Checked::Equal),
        Some(difference) => Err(difference),
    }
}

/// The id of the thread.
const THREAD: &str = "thread";

/// Builds the request like `convoke request`.
fn request(
    scenario: &Scenario,
    run: &Value,
    captured: &Value,
    packs: &Path,
) -> Result<(Arc<Request>, Wire), String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let pack = Pack::load(&Disk, &pack_folder(scenario, packs)).map_err(|it| told(&it))?;
    let tree = Tree::lay_out(scenario, packs)?;
    tree.run(&texts(&run["editsBefore"]))?;
    let machine = machine(scenario, run, &tree);
    let exec = Exec::parse(&texts(&run["argv"]))?;
    let config = Config::load(&tree, &machine, pack.shape, &exec.overrides);
    let config = config.map_err(|it| told(&it))?;
    let wire = config.provider.wire;
    let models = match &scenario.get("modelScript")["models"] {
        Value::Null => Vec::new(),
        listed => read_listed(listed).map_err(|it| told(&it))?,
    };
    let images = exec.images.iter().cloned().map(UserInput::LocalImage);
    let stdin = run["stdin"].as_str().or(scenario.text("stdin")).unwrap_or_default();
    let prompt = match exec.prompt.as_deref() {
        None | Some("-") => decode_prompt(stdin.as_bytes()).map_err(|it| told(&it))?,
        Some(prompt) => prompt.to_owned(),
    };
    let inputs = images.chain([UserInput::Text(prompt)]).collect();
    let output_schema = match &exec.output_schema {
        Some(path) => {
            let path = machine.cwd.join(path);
            let text = tree.read_to_string(&path.display().to_string()).ok_or("no schema")?;
            Some(serde_json::from_str(&text).map_err(|it| told(&it))?)
        }
        None => None,
    };
    let setup = Setup { files: &tree, pack: &pack, machine: &machine, listed_models: &models };
    let mut thread = Thread::start(setup, config, THREAD).map_err(|it| told(&it))?;
    thread.set_tools(
        list(&captured["body"]["tools"]).iter().map(client::as_responses_tool).collect(),
    );
    let overrides = TurnOverrides { output_schema, ..TurnOverrides::default() };
    match thread.begin_turn(inputs, &overrides).map_err(|it| told(&it))? {
        Step::Send(request) => Ok((request, wire)),
        other => Err(format!("no request but {other:?}")),
    }
}

fn machine(scenario: &Scenario, run: &Value, tree: &Tree) -> Machine {
    let path = |key: &str| scenario.text(key).map(PathBuf::from);
    let env = |name: &str| scenario.get("env")[name].as_str();
    let passwd = tree.read_to_string("/lab/passwd").unwrap_or_default();
    let uid = scenario.get("uid").as_u64().unwrap_or(0).to_string();
    let mut users = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let shell =
        users.find(|fields| fields.get(2) == Some(&&*uid)).and_then(|it| it.get(6).copied());
    let shell = PathBuf::from(shell.unwrap_or("/bin/bash"));
    let cwd = PathBuf::from(run["cwd"].as_str().or(scenario.text("cwd")).unwrap_or_default());
    Machine {
        home: path("home"),
        codex_home: path("codexHome").unwrap_or_default(),
        cwd: convoke_files::Files::canonicalize(tree, &cwd).unwrap_or(cwd),
        shell: shell_name(tree, Some(&shell), &["/bin".into(), "/usr/bin".into()]).to_owned(),
        tmpdir: env("TMPDIR").map(PathBuf::from),
        openai_base_url: env("OPENAI_BASE_URL").map(str::to_owned),
    }
}

/// Sends a request to a rehearsal server and returns what it received.
async fn sent(request: &Request, wire: Wire) -> Result<(String, Vec<u8>), String> {
    let server = start(Script::default()).await.map_err(|error| error.to_string())?;
    let base = format!("{}/v1", server.base_url());
    let endpoint = Endpoint::new(&base, wire).map_err(|error| error.to_string())?;
    let client = Client::new(endpoint, None, &Proxies::default(), CallLimits::default());
    let client = client.map_err(|error| error.to_string())?;
    let mut call = client.call(request.path, request.body.clone(), &[]);
    while let Some(event) = call.next().await {
        if let CallEvent::Failed(error) = event {
            return Err(error.to_string());
        }
    }
    match &server.model_calls()[..] {
        [arrived] => Ok((arrived.target.clone(), arrived.body.to_vec())),
        calls => Err(format!("{} requests arrived", calls.len())),
    }
}
