//! A continued thread sends what has changed, and nothing else.

use convoke_files::MemoryTree;
use convoke_thread::config::{Config, Machine, Overrides};
use convoke_thread::pack::Pack;
use convoke_thread::permissions::{ApprovalPolicy, SandboxPolicy};
use convoke_thread::personality::Personality;
use convoke_thread::record::Record;
use convoke_thread::thread::{LastSituation, Setup, Step, Thread, TurnOverrides};
use convoke_thread::user_input::UserInput;
use serde_json::Value;

struct World {
    files: MemoryTree,
    machine: Machine,
    pack: Pack,
}

impl World {
    fn new() -> Self {
        let mut files = MemoryTree::default();
        files.write("/work/.git/HEAD", "");
        files.write("/work/AGENTS.md", "Be brief.");
        files.create_directory("/home");
        Self {
            files,
            machine: Machine {
                home: Some("/home".into()),
                codex_home: "/home/config".into(),
                cwd: "/work".into(),
                shell: "bash".to_owned(),
                tmpdir: None,
                openai_base_url: None,
            },
            pack: convoke_packs::convoke().unwrap(),
        }
    }

    fn config(&self) -> Config {
        let overrides = Overrides {
            // A model with personalities whose instructions contain none.
            model: Some("gpt-5.2-codex".to_owned()),
            personality: Some(Personality::Pragmatic),
            approval_policy: Some(ApprovalPolicy::Never),
            ..Overrides::default()
        };
        Config::load(&self.files, &self.machine, self.pack.shape, &overrides).unwrap()
    }

    fn setup(&self) -> Setup<'_> {
        Setup { files: &self.files, pack: &self.pack, machine: &self.machine, listed_models: &[] }
    }

    /// Starts a thread with a turn, and returns its stored form.
    fn begun(&self) -> (Record, LastSituation, Vec<Value>) {
        let mut thread = Thread::start(self.setup(), self.config(), "t").unwrap();
        let mut record = thread.record_start();
        let items = items_of(&mut thread, "One");
        record.events = thread.take_events();
        (record, thread.last_situation(), items)
    }
}

/// Starts a turn and returns the items of its request.
fn items_of(thread: &mut Thread<'_>, text: &str) -> Vec<Value> {
    let input = vec![UserInput::Text(text.to_owned())];
    match thread.begin_turn(input, &TurnOverrides::default()).unwrap() {
        Step::Send(request) => {
            let body: Value = serde_json::from_str(&request.body).unwrap();
            body["input"].as_array().unwrap().clone()
        }
        other => panic!("{other:?}"),
    }
}

/// Continues with another configuration and returns the added texts.
fn added(world: &World, change: impl FnOnce(&mut Config)) -> Vec<String> {
    let (record, told, before) = world.begun();
    let mut config = world.config();
    change(&mut config);
    let mut thread = Thread::continued(world.setup(), config, &record, &told).unwrap();
    let after = items_of(&mut thread, "Two");
    assert_eq!(before[..], after[..before.len()], "what was sent stays as it was");
    let texts = after[before.len()..].iter();
    texts.map(|item| item["content"][0]["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn nothing_is_sent_again() {
    assert_eq!(added(&World::new(), |_| {}), ["Two"]);
}

#[test]
fn other_permissions_are_sent() {
    let texts = added(&World::new(), |config| {
        config.sandbox_policy = SandboxPolicy::DangerFullAccess;
    });
    assert_eq!(texts.len(), 2);
    assert!(texts[0].starts_with("<permissions instructions>"), "{}", texts[0]);
}

#[test]
fn another_personality_is_sent() {
    let texts = added(&World::new(), |config| config.personality = Some(Personality::Friendly));
    assert_eq!(texts.len(), 2);
    assert!(texts[0].starts_with("<personality_spec>"), "{}", texts[0]);
}

#[test]
fn another_directory_brings_its_own_instructions() {
    let mut world = World::new();
    world.files.write("/work/sub/AGENTS.md", "And kind.");
    let texts = added(&world, |config| config.cwd = "/work/sub".into());
    assert_eq!(texts.len(), 3);
    assert!(texts[0].contains("Be brief.") && texts[0].contains("And kind."));
    assert!(texts[1].contains("<cwd>/work/sub</cwd>"));
}

#[test]
fn a_thread_that_continued_often_is_not_sent_what_it_has() {
    let world = World::new();
    let (mut record, mut told, before) = world.begun();
    for round in 0..5 {
        let mut thread = Thread::continued(world.setup(), world.config(), &record, &told).unwrap();
        let items = items_of(&mut thread, "More");
        assert_eq!(items.len(), before.len() + 1 + round);
        record.events.extend(thread.take_events());
        told = thread.last_situation();
    }
}
