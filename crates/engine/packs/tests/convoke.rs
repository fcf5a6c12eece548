//! The shipped pack: whole, our own, and honest about tools.

#![expect(clippy::unwrap_used, reason = "this is a test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use convoke_files::Disk;
use convoke_packs::FILES;
use convoke_thread::model::{ModelInfo, ModelOverrides};
use convoke_thread::pack::Pack;
use convoke_thread::personality::Personality;

const PERSONALITIES: [Option<Personality>; 4] =
    [None, Some(Personality::None), Some(Personality::Friendly), Some(Personality::Pragmatic)];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("convoke")
}

fn model(pack: &Pack, slug: &str) -> ModelInfo {
    let overrides = ModelOverrides { personality: true, ..ModelOverrides::default() };
    ModelInfo::find(slug, &[], &pack.models, &overrides).unwrap()
}

#[test]
fn the_pack_is_whole_compiled_in_and_on_disk() {
    let compiled_in = convoke_packs::convoke().unwrap();
    let on_disk = Pack::load(&Disk, &folder()).unwrap();
    assert_eq!(format!("{compiled_in:?}"), format!("{on_disk:?}"));
}

#[test]
fn every_file_of_the_folder_is_compiled_in() {
    let mut found = BTreeSet::new();
    let mut folders = vec![folder()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder()).unwrap();
                found.insert(name.to_str().unwrap().to_owned());
            }
        }
    }
    let compiled_in: BTreeSet<_> = FILES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(compiled_in, found);
}

#[test]
fn no_text_is_blank() {
    for (name, text) in FILES {
        assert!(!text.trim().is_empty(), "{name}");
    }
}

#[test]
fn instructions_with_and_without_a_place_for_the_personality_say_the_same() {
    let text = |name: &str| FILES.iter().find(|file| file.0 == name).unwrap().1;
    let template = text("instructions/agent-template.md");
    assert_eq!(template.replacen("{{ personality }}\n", "", 1), text("instructions/agent.md"));
}

#[test]
fn any_model_has_facts_and_every_personality() {
    let pack = convoke_packs::convoke().unwrap();
    for slug in ["gpt-5.2-codex", "gpt-5", "o3", "claude-x", "gemini-x", "never-heard-of"] {
        let model = model(&pack, slug);
        assert!(model.supports_personality(), "{slug}");
        assert!(model.auto_compact_limit().is_some(), "{slug}");
        let texts = PERSONALITIES.map(|it| model.instructions(it).into_owned());
        assert_eq!(texts[0], texts[1], "{slug}: no wish, and the wish for none");
        let distinct: BTreeSet<_> = texts.iter().collect();
        assert_eq!(distinct.len(), 3, "{slug}");
    }
}

#[test]
fn the_ways_to_work_together_are_those_that_codex_names() {
    let pack = convoke_packs::convoke().unwrap();
    let modes: Vec<_> = pack.collaboration.keys().map(String::as_str).collect();
    assert_eq!(modes, ["default", "execute", "pair_programming", "plan"]);
}

/// A request may carry no tools; nothing that every request carries may promise one.
#[test]
fn no_text_promises_a_tool() {
    let tools = [
        "apply_patch",
        "exec_command",
        "write_stdin",
        "shell_command",
        "local_shell",
        "update_plan",
        "request_user_input",
        "view_image",
        "web_search",
        "read_file",
        "list_dir",
    ];
    for (name, text) in FILES {
        if *name == "models.json" {
            continue;
        }
        for tool in tools {
            assert!(!text.contains(tool), "{name} names {tool}");
        }
    }
    let pack = convoke_packs::convoke().unwrap();
    let instructions = model(&pack, "any").instructions(None).into_owned();
    assert!(instructions.contains("With no tools at all"));
}

#[test]
fn no_sentence_is_another_projects() {
    let Some(shared) = std::env::var_os("CONVOKE_SHARED") else {
        println!("skipped: CONVOKE_SHARED is not set");
        return;
    };
    let mut theirs = String::new();
    let mut folders = vec![Path::new(&shared).join("packs")];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "md") {
                theirs.push_str(&normal(&std::fs::read_to_string(path).unwrap()));
                theirs.push('\n');
            }
        }
    }
    assert!(theirs.len() > 50_000, "there are packs to compare with");
    for (name, text) in
        FILES.iter().filter(|file| Path::new(file.0).extension().is_some_and(|it| it == "md"))
    {
        for phrase in phrases(&normal(text)) {
            assert!(!theirs.contains(phrase), "{name} has `{phrase}` of another project");
        }
    }
}

/// Every run of nine words.
fn phrases(text: &str) -> impl Iterator<Item = &str> {
    const WORDS: usize = 9;
    let starts = std::iter::once(0).chain(text.match_indices(' ').map(|(at, _)| at + 1));
    starts.filter_map(move |start| {
        let rest = text.get(start..)?;
        let end = rest.match_indices(' ').nth(WORDS - 1)?.0;
        rest.get(..end)
    })
}

fn normal(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}
