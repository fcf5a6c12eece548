use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::json;

use super::{
    CollaborationMode, ModelResponse, ResponseFailure, Step, Thread, TurnOutcome, TurnOverrides,
};
use crate::config::Config;
use crate::diagnostics;
use crate::fixture::{World, answer, body, lines, reply, say, say_with};
use crate::history::UserMessages;
use crate::item::ResponseItem;
use crate::pack::SystemSkill;
use crate::permissions::{ApprovalPolicy, SandboxPolicy};
use crate::personality::Personality;
use crate::record::Record;
use convoke_files::{EntryKind, Files, Head, MemoryTree};

const READ_ONLY: &str = "developer: <permissions instructions>\nread restricted\non-request with rules\napproved: \n</permissions instructions>";
const ENVIRONMENT: &str =
    "user: <environment_context>\n  <cwd>/r</cwd>\n  <shell>bash</shell>\n</environment_context>";

fn record(thread: &mut Thread<'_>) -> Record {
    let mut record = thread.record_start();
    record.events = thread.take_events();
    record
}

fn collaboration(model: &str, text: &str) -> CollaborationMode {
    CollaborationMode {
        mode: "plan".to_owned(),
        model: model.to_owned(),
        effort: None,
        developer_instructions: Some(text.to_owned()),
    }
}

#[test]
fn the_initial_context_has_its_order_whatever_is_present() {
    let mut world = World::new("developer_instructions = \"DEV\"\nmodel = \"person\"\n");
    world.tree.write("/r/AGENTS.md", "DOC");
    world.tree.write("/home/.codex/AGENTS.md", " USER \n");
    let mut thread = world.start();
    let agents = "user: # AGENTS.md instructions for /r\n\n<INSTRUCTIONS>\nUSER\n\n--- project-doc ---\n\nDOC\n</INSTRUCTIONS>";
    let expected = [READ_ONLY, "developer: DEV", agents, ENVIRONMENT, "user: hi"];
    let step = say(&mut thread, "hi");
    assert_eq!(lines(&step), expected);
    assert_eq!(body(&step)["instructions"], "template [brief]");
}

#[test]
fn every_change_is_reported_once_and_in_order() {
    let world = World::new("model = \"person\"\n");
    let mut thread = world.start();
    say(&mut thread, "one");
    reply(&mut thread, "1", 1);
    let changes = TurnOverrides {
        cwd: Some("/r/sub".into()),
        approval_policy: Some(ApprovalPolicy::Never),
        personality: Some(Personality::Friendly),
        collaboration: Some(collaboration("person", "PLAN")),
        ..TurnOverrides::default()
    };
    let expected = [
        "user: <environment_context>\n  <cwd>/r/sub</cwd>\n  <shell>bash</shell>\n</environment_context>",
        "developer: <permissions instructions>\nread restricted\nnever\n</permissions instructions>",
        "developer: <collaboration_mode>PLAN</collaboration_mode>",
        "developer: <personality_spec>warm</personality_spec>",
        "user: two",
    ];
    let step = say_with(&mut thread, "two", &changes);
    assert_eq!(lines(&step)[4..], expected);
    reply(&mut thread, "2", 1);
    let step = say_with(&mut thread, "three", &changes);
    assert_eq!(lines(&step)[10..], ["user: three"]);
}

#[test]
fn a_new_model_is_announced_and_carries_its_personality() {
    let world = World::new("model = \"person\"\n");
    let mut thread = world.start();
    say(&mut thread, "one");
    reply(&mut thread, "1", 1);
    let changes = TurnOverrides {
        model: Some("person-2".to_owned()),
        personality: Some(Personality::Friendly),
        ..TurnOverrides::default()
    };
    let step = say_with(&mut thread, "two", &changes);
    let expected = ["developer: <model_switch>template [warm]</model_switch>", "user: two"];
    assert_eq!(lines(&step)[4..], expected);
    assert_eq!(body(&step)["instructions"], "template [brief]");
    assert_eq!(body(&step)["model"], "person-2");
}

#[test]
fn a_personality_without_effect_is_not_sent() {
    let world = World::new("model = \"person\"\n");
    let mut thread = world.start();
    for (personality, count) in [
        (Personality::Friendly, 1),
        (Personality::None, 1),
        (Personality::Pragmatic, 2),
        (Personality::Pragmatic, 2),
    ] {
        let changes = TurnOverrides { personality: Some(personality), ..TurnOverrides::default() };
        let step = say_with(&mut thread, "hi", &changes);
        let told = lines(&step).iter().filter(|it| it.contains("personality_spec")).count();
        assert_eq!(told, count, "{personality:?}");
        reply(&mut thread, "ok", 1);
    }
}

#[test]
fn a_resumed_thread_repeats_its_context_and_sends_an_override_twice() {
    let world = World::new("");
    let mut thread = world.start();
    say(&mut thread, "one");
    reply(&mut thread, "1", 1);
    let mut record = record(&mut thread);

    let mut resumed = Thread::resume(world.setup(), world.config(), &record).unwrap();
    let changes = TurnOverrides {
        sandbox_policy: Some(SandboxPolicy::DangerFullAccess),
        ..TurnOverrides::default()
    };
    let danger = READ_ONLY.replace("read restricted", "danger enabled");
    let step = say_with(&mut resumed, "two", &changes);
    let expected = [
        READ_ONLY,
        ENVIRONMENT,
        "user: one",
        "assistant: 1",
        &danger,
        ENVIRONMENT,
        &danger,
        "user: two",
    ];
    assert_eq!(lines(&step), expected);
    assert_eq!(body(&step)["prompt_cache_key"], "t");
    reply(&mut resumed, "2", 1);
    record.events.extend(resumed.take_events());

    let mut again = Thread::resume(world.setup(), world.config(), &record).unwrap();
    let lines = lines(&say(&mut again, "three"));
    assert_eq!(lines.iter().filter(|it| *it == ENVIRONMENT).count(), 3);
}

#[test]
fn a_resumed_thread_keeps_its_instructions_and_announces_another_model() {
    let world = World::new("model = \"person\"\n");
    let mut thread = world.start();
    say(&mut thread, "one");
    reply(&mut thread, "1", 1);
    let record = record(&mut thread);
    let mut config = world.config();
    config.model = "other".to_owned();
    let mut resumed = Thread::resume(world.setup(), config, &record).unwrap();
    let step = say(&mut resumed, "two");
    assert_eq!(body(&step)["instructions"], "template [brief]");
    let switch = "developer: <model_switch>plain base</model_switch>";
    assert_eq!(lines(&step)[6..], [switch, "user: two"]);
}

#[test]
fn a_fork_has_its_own_id_and_its_context_right_after_the_history() {
    let world = World::new("");
    let mut thread = world.start();
    say(&mut thread, "one");
    reply(&mut thread, "1", 1);
    let record = record(&mut thread);
    let mut fork = Thread::fork(world.setup(), world.config(), &record, "f").unwrap();
    let step = say(&mut fork, "two");
    let expected = [READ_ONLY, ENVIRONMENT, "user: two"];
    assert_eq!(lines(&step)[4..], expected);
    assert_eq!(body(&step)["prompt_cache_key"], "f");
    assert!(fork.take_events().len() > record.events.len());
}

#[test]
fn a_roll_back_takes_the_last_turns_out() {
    let world = World::new("");
    let mut thread = world.start();
    for text in ["one", "two"] {
        say(&mut thread, text);
        reply(&mut thread, text, 1);
    }
    thread.roll_back(1);
    let expected = [READ_ONLY, ENVIRONMENT, "user: one", "assistant: one", "user: three"];
    assert_eq!(lines(&say(&mut thread, "three")), expected);
    let record = record(&mut thread);
    let mut resumed = Thread::resume(world.setup(), world.config(), &record).unwrap();
    assert_eq!(lines(&say(&mut resumed, "four"))[..5], expected);
}

#[test]
fn a_compaction_keeps_user_messages_and_the_summary() {
    let world = World::new("");
    let mut thread = world.start();
    say(&mut thread, "one");
    reply(&mut thread, "1", 1);
    thread.set_tools(vec![json!({"type": "function", "name": "f"})]);
    let step = thread.begin_compaction().unwrap();
    assert_eq!(lines(&step).last().unwrap(), "user: summarise\n");
    let sent = body(&step);
    assert_eq!((&sent["tools"], &sent["parallel_tool_calls"]), (&json!([]), &json!(false)));
    assert!(matches!(reply(&mut thread, "SUMMARY", 1), Step::Done(TurnOutcome::Finished)));
    let expected = [READ_ONLY, ENVIRONMENT, "user: one", "user: earlier:\nSUMMARY", "user: two"];
    assert_eq!(lines(&say(&mut thread, "two")), expected);

    // A second compaction keeps no earlier summary, and a resumed thread rebuilds the same history.
    reply(&mut thread, "2", 1);
    thread.begin_compaction().unwrap();
    reply(&mut thread, "SECOND", 1);
    let rebuilt = [READ_ONLY, ENVIRONMENT, "user: one", "user: two", "user: earlier:\nSECOND"];
    let record = record(&mut thread);
    assert_eq!(lines(&say(&mut thread, "three"))[..5], rebuilt);
    let mut resumed = Thread::resume(world.setup(), world.config(), &record).unwrap();
    assert_eq!(lines(&say(&mut resumed, "three"))[..5], rebuilt);
}

#[test]
fn a_message_that_looks_like_an_injected_one_survives_a_compaction_and_begins_a_turn() {
    let texts = [
        "<skill>x",
        "<environment_context> what is that?",
        "# AGENTS.md instructions for me",
        "<user_shell_command>ls",
        "earlier:\nI asked this",
    ];
    for text in texts {
        let world = World::new("");
        let config = || Config { user_messages: UserMessages::ByOrigin, ..world.config() };
        let mut thread = Thread::start(world.setup(), config(), "t").unwrap();
        say(&mut thread, text);
        reply(&mut thread, "1", 1);
        thread.begin_compaction().unwrap();
        reply(&mut thread, "S", 1);
        let asked = format!("user: {text}");
        let compacted = [READ_ONLY, ENVIRONMENT, &asked, "user: earlier:\nS"];
        assert_eq!(lines(&say(&mut thread, "two"))[..4], compacted);
        reply(&mut thread, "2", 1);
        let record = record(&mut thread);
        let mut resumed = Thread::resume(world.setup(), config(), &record).unwrap();
        assert_eq!(lines(&say(&mut resumed, "three"))[..4], compacted);

        say(&mut thread, text);
        reply(&mut thread, "3", 1);
        thread.roll_back(1);
        assert_eq!(
            lines(&say(&mut thread, "four"))[4..],
            ["user: two", "assistant: 2", "user: four"]
        );
    }
}

#[test]
fn a_thread_that_imitates_codex_recognises_messages_by_their_text_and_reports_what_it_drops() {
    let world = World::new("");
    let mut thread = world.start();
    say(&mut thread, "<skill>x");
    let call = json!({"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"});
    answer(&mut thread, &[call], 1);
    let beside = ResponseItem::user("Warning: use the other tool.");
    thread.tool_results(vec![ResponseItem::function_output("c", "o"), beside]).unwrap();
    reply(&mut thread, "1", 1);
    thread.begin_compaction().unwrap();
    reply(&mut thread, "S", 1);
    let kept = "user: Warning: use the other tool.";
    let step = say(&mut thread, "two");
    assert_eq!(lines(&step)[..4], [READ_ONLY, ENVIRONMENT, kept, "user: earlier:\nS"]);
    let Step::Send(request) = &step else { panic!("{step:?}") };
    let dropped: Vec<_> = request
        .diagnostics
        .iter()
        .filter(|it| it.code == diagnostics::COMPACTION_DROPPED)
        .map(|it| it.bytes)
        .collect();
    assert_eq!(dropped, [Some(8)]);
    reply(&mut thread, "2", 1);
    // The turn before `two` begins with the message beside the output.
    thread.roll_back(3);
    assert_eq!(lines(&say(&mut thread, "three"))[2..], ["user: three"]);
}

#[test]
fn a_full_thread_is_compacted_before_the_next_turn_and_between_tools() {
    let world = World::new("model_auto_compact_token_limit = 1000\n");
    let mut thread = world.start();
    say(&mut thread, "one");
    reply(&mut thread, "1", 1000);
    let step = say(&mut thread, "two");
    assert_eq!(lines(&step).last().unwrap(), "user: summarise\n");
    let step = reply(&mut thread, "S", 1);
    let expected = [READ_ONLY, ENVIRONMENT, "user: one", "user: earlier:\nS", "user: two"];
    assert_eq!(lines(&step), expected);

    let call = json!({"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"});
    let step = answer(&mut thread, &[call], 999);
    assert!(matches!(step, Step::RunTools(calls) if calls.len() == 1));
    let step = thread.tool_results(vec![ResponseItem::function_output("c", "o")]).unwrap();
    assert_eq!(lines(&step).last().unwrap(), "user: summarise\n");
    let step = reply(&mut thread, "S2", 1);
    let expected = [READ_ONLY, ENVIRONMENT, "user: one", "user: two", "user: earlier:\nS2"];
    assert_eq!(lines(&step), expected);
}

#[test]
fn a_compaction_that_does_not_fit_drops_the_oldest_from_the_request_only() {
    let world = World::new("");
    let mut thread = world.start();
    say(&mut thread, "one");
    reply(&mut thread, "1", 1);
    let first = lines(&thread.begin_compaction().unwrap());
    let too_long = ModelResponse {
        failure: Some(ResponseFailure::ContextWindowExceeded),
        ..ModelResponse::default()
    };
    let second = lines(&thread.answer(too_long).unwrap());
    assert_eq!(second, first[1..]);
    reply(&mut thread, "S", 1);
    let expected = [READ_ONLY, ENVIRONMENT, "user: one", "user: earlier:\nS", "user: two"];
    assert_eq!(lines(&say(&mut thread, "two")), expected);
}

#[test]
fn a_compaction_that_fails_lets_the_turn_go_on() {
    let world = World::new(
        "model_auto_compact_token_limit = 10\nmodel_provider = \"m\"\n\
         [model_providers.m]\nname = \"m\"\nstream_max_retries = 1\nrequest_max_retries = 0\n",
    );
    let mut thread = world.start();
    say(&mut thread, "one");
    reply(&mut thread, "1", 10);
    let failed = || ModelResponse {
        failure: Some(ResponseFailure::Fatal("no".to_owned())),
        ..ModelResponse::default()
    };
    let first = lines(&say(&mut thread, "two"));
    assert_eq!(lines(&thread.answer(failed()).unwrap()), first);
    let step = thread.answer(failed()).unwrap();
    assert_eq!(lines(&step).last().unwrap(), "user: two");
    assert_eq!(lines(&step).len(), 5);
}

#[test]
fn a_failed_answer_repeats_the_same_request_as_often_as_configured() {
    let world = World::new(
        "model_provider = \"m\"\n[model_providers.m]\nname = \"m\"\nstream_max_retries = 2\n",
    );
    let mut thread = world.start();
    let broken = || ModelResponse {
        failure: Some(ResponseFailure::Stream("broke".to_owned())),
        ..ModelResponse::default()
    };
    let first = body(&say(&mut thread, "one"));
    assert_eq!(body(&thread.answer(broken()).unwrap()), first);
    assert_eq!(body(&thread.answer(broken()).unwrap()), first);
    let step = thread.answer(broken()).unwrap();
    assert!(matches!(step, Step::Done(TurnOutcome::Failed(reason)) if reason == "broke"));
}

#[test]
fn an_interrupted_turn_is_reported_after_the_results_of_its_tools() {
    let world = World::new("");
    let mut thread = world.start();
    say(&mut thread, "go");
    let call = json!({"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"});
    answer(&mut thread, &[call], 1);
    thread.interrupt(vec![ResponseItem::function_output("c", "aborted by user")]);
    let expected = [
        "function_call: c",
        "function_call_output: aborted by user",
        "user: <turn_aborted>\nstopped\n</turn_aborted>",
        "user: next",
    ];
    assert_eq!(lines(&say(&mut thread, "next"))[3..], expected);
}

#[test]
fn what_is_sent_during_a_turn_follows_the_answer() {
    let mut world = World::new("");
    let skill = "---\nname: s\ndescription: d\n---\nbody";
    world.tree.write("/home/.codex/skills/s/SKILL.md", skill);
    let mut thread = world.start();
    say(&mut thread, "go");
    thread.steer(&[crate::user_input::UserInput::Text("and $s".to_owned())]);
    let step = reply(&mut thread, "1", 1);
    assert_eq!(lines(&step)[4..], ["assistant: 1", "user: and $s"]);
}

#[test]
fn an_approved_prefix_is_sent_and_then_listed() {
    let world = World::new("");
    let mut thread = world.start();
    thread.approve_prefix(vec!["git".to_owned(), "log".to_owned()]);
    let changes = TurnOverrides {
        sandbox_policy: Some(SandboxPolicy::DangerFullAccess),
        ..TurnOverrides::default()
    };
    let lines = lines(&say_with(&mut thread, "go", &changes));
    assert_eq!(lines[2], "developer: Approved command prefix saved:\n- [\"git\", \"log\"]");
    assert!(lines[3].contains("approved: - [\"git\", \"log\"]\n"));
}

#[test]
fn a_report_that_nobody_waits_for_is_refused() {
    let world = World::new("");
    let mut thread = world.start();
    let refused = thread.answer(ModelResponse::default()).unwrap_err();
    assert_eq!(refused.to_string(), "the thread is not waiting for an answer");
    say(&mut thread, "one");
    let refused = thread.begin_compaction().unwrap_err();
    assert!(refused.to_string().contains("the last one is not over"));
}

#[test]
fn every_loss_is_reported_with_the_request() {
    let mut world = World::new("model = \"person\"\nproject_doc_max_bytes = 2\n");
    world.tree.write("/r/AGENTS.md", "longer");
    world.tree.write("/home/.codex/AGENTS.md", "a </INSTRUCTIONS> b");
    world.tree.write("/home/.codex/skills/x/SKILL.md", "nothing");
    world.tree.write("/home/.codex/rules/a.rules", "nonsense");
    let mut thread = world.start();
    let Step::Send(request) = say(&mut thread, "go") else {
        panic!("no request");
    };
    let mut codes: Vec<_> = request.diagnostics.iter().map(|it| it.code.name()).collect();
    codes.sort_unstable();
    let expected = ["agents-md.truncated", "rules.invalid", "skill.invalid", "text.closes-wrapper"];
    assert_eq!(codes, expected);
}

/// Files that record what was read.
struct Watched<'a> {
    files: &'a MemoryTree,
    read: Mutex<BTreeSet<PathBuf>>,
}

impl Files for Watched<'_> {
    fn entry_kind(&self, path: &Path) -> io::Result<EntryKind> {
        self.files.entry_kind(path)
    }

    fn kind(&self, path: &Path) -> io::Result<EntryKind> {
        self.files.kind(path)
    }

    fn read_head(&self, path: &Path, limit: u64) -> io::Result<Head> {
        let head = self.files.read_head(path, limit)?;
        self.read.lock().unwrap().insert(path.to_owned());
        Ok(head)
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<OsString>> {
        self.files.names(directory)
    }

    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.files.canonicalize(path)
    }
}

#[test]
fn nothing_is_read_but_what_counts() {
    let mut world = World::new("");
    let skill = "---\nname: s\ndescription: d\n---\nbody";
    for (path, text) in [
        ("/AGENTS.md", "above the root"),
        ("/home/AGENTS.md", "not Codex's"),
        ("/home/.codex/auth.json", "secret"),
        ("/home/.codex/AGENTS.md", "mine"),
        ("/home/.codex/rules/a.rules", ""),
        ("/home/.codex/skills/s/SKILL.md", skill),
        ("/home/.codex/skills/s/secret", "secret"),
        ("/r/AGENTS.md", "root"),
        ("/r/.codex/config.toml", "model = \"not trusted\""),
        ("/r/sub/AGENTS.md", "below"),
    ] {
        world.tree.write(path, text);
    }
    let read = Mutex::default();
    let watched = Watched { files: &world.tree, read };
    let config = Config::load(
        &watched,
        &world.machine,
        world.pack.shape,
        &crate::config::Overrides::default(),
    );
    let setup = super::Setup { files: &watched, ..world.setup() };
    let mut thread = Thread::start(setup, config.unwrap(), "t").unwrap();
    say(&mut thread, "use $s");
    let read: Vec<_> =
        watched.read.lock().unwrap().iter().map(|it| it.display().to_string()).collect();
    let expected = [
        "/home/.codex/AGENTS.md",
        "/home/.codex/config.toml",
        "/home/.codex/rules/a.rules",
        "/home/.codex/skills/s/SKILL.md",
        "/r/AGENTS.md",
    ];
    assert_eq!(read, expected);
}

#[test]
fn skills_that_come_with_the_pack_count_as_installed() {
    let mut world = World::new("");
    let text = "---\nname: maker\ndescription: makes\n---\nMake it.";
    let system = SystemSkill { folder: "maker".to_owned(), text: text.into() };
    world.pack.skills.system.push(system);
    world.tree.write("/home/.codex/skills/.system/old/SKILL.md", text.replace("maker", "old"));
    let mut thread = world.start();
    let lines = lines(&say(&mut thread, "use $maker"));
    let listed = "- maker: makes (file: /home/.codex/skills/.system/maker/SKILL.md)\n### How";
    assert!(lines[1].contains(listed) && !lines[1].contains("old"), "{}", lines[1]);
    assert!(lines[4].contains("Make it."));
}

#[cfg(unix)]
#[test]
fn a_real_directory_and_memory_yield_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().canonicalize().unwrap();
    let mut world = World::new("");
    let skill = "---\nname: s\ndescription: d\n---\nbody";
    let files = [
        ("home/.codex/config.toml", "project_doc_max_bytes = 12\n"),
        ("home/.codex/AGENTS.md", " mine\n"),
        ("home/.codex/rules/a.rules", "prefix_rule(pattern=[\"ls\"])\n"),
        ("home/.agents/skills/s/SKILL.md", skill),
        ("r/.git/HEAD", ""),
        ("r/AGENTS.md", "root"),
        ("r/sub/.codex/skills/deep/SKILL.md", "no front matter"),
        ("r/sub/other.md", "linked and too long"),
    ];
    for (path, text) in files {
        let path = base.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        world.tree.write(path, text);
    }
    let link = base.join("r/sub/AGENTS.md");
    std::os::unix::fs::symlink("other.md", &link).unwrap();
    world.tree.link(&link, "other.md");
    world.machine.home = Some(base.join("home"));
    world.machine.codex_home = base.join("home/.codex");
    world.machine.cwd = base.join("r/sub");

    let request = |files: &(dyn Files + Sync)| {
        let overrides = crate::config::Overrides::default();
        let shape = world.pack.shape;
        let config = Config::load(files, &world.machine, shape, &overrides);
        let setup = super::Setup { files, ..world.setup() };
        let mut thread = Thread::start(setup, config.unwrap(), "t").unwrap();
        let Step::Send(request) = say(&mut thread, "use $s") else {
            panic!("no request");
        };
        request
    };
    let (memory, disk) = (request(&world.tree), request(&convoke_files::Disk));
    assert_eq!(memory.body, disk.body);
    assert_eq!(memory.diagnostics, disk.diagnostics);
    assert!(disk.body.contains("linked a") && disk.body.contains("<skill>"));
}

#[test]
fn an_unknown_model_is_reported_once_until_its_window_is_set() {
    let unknown = |thread: &mut Thread<'_>, text: &str| {
        let Step::Send(request) = say(thread, text) else { unreachable!("the turn sends") };
        reply(thread, "ok", 1);
        let found = request.diagnostics.iter().filter(|it| it.code.name() == "model.unknown");
        found.map(|it| it.message.clone()).collect::<Vec<_>>()
    };
    let cases = [
        ("model = \"person-2\"\n", None),
        ("model = \"other\"\nmodel_context_window = 8000\n", None),
        (
            "model = \"other\"\n",
            Some("the model `other` is unknown: a context window of 100000 tokens is assumed"),
        ),
        (
            "model = \"persn\"\n",
            Some(
                "the model `persn` is unknown: a context window of 100000 tokens is assumed; did you mean `person`?",
            ),
        ),
    ];
    for (config, expected) in cases {
        let world = World::new(config);
        let mut thread = world.start();
        assert_eq!(unknown(&mut thread, "one"), Vec::from_iter(expected), "{config}");
        assert!(unknown(&mut thread, "two").is_empty(), "{config}");
    }
}
