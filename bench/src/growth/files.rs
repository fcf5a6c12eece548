//! The readers of a project's files.

use std::path::Path;

use convoke_codex::config::Layers;
use convoke_codex::project_doc::{Rules, Settings, Trust, discover};
use convoke_explain::{Edition, Session, explain};
use convoke_files::{FileKind, MemoryTree};
use convoke_pipe::assemble::assemble_lines;

use super::Reader;

const MIB: usize = 1 << 20;

/// The most bytes of a file of a kind.
#[expect(clippy::cast_possible_truncation, reason = "limits fit into memory")]
const fn limit(kind: FileKind) -> usize {
    kind.limit() as usize
}

pub const READERS: &[Reader] = &[
    Reader {
        name: "rules of Claude Code",
        input: "front matter of `[`",
        limit: limit(FileKind::FrontMatter),
        prepare: |size| rule(&"[".repeat(size)),
    },
    Reader {
        name: "rules of Claude Code",
        input: "front matter of `- `",
        limit: limit(FileKind::FrontMatter),
        prepare: |size| rule(&"- ".repeat(size / 2)),
    },
    Reader {
        name: "rules of Claude Code",
        input: "front matter of aliases",
        limit: limit(FileKind::FrontMatter),
        prepare: |size| rule(&format!("a: &a [x, x]\npaths: [{}]", "*a, ".repeat(size / 4))),
    },
    Reader {
        name: "rules of Claude Code",
        input: "`{a,b}` in `paths:`",
        limit: limit(FileKind::FrontMatter),
        prepare: |size| rule(&format!("paths: \"{}\"", "{a,b}".repeat(size / 5))),
    },
    Reader {
        name: "rules of Claude Code",
        input: "`{a}` in `paths:`",
        limit: limit(FileKind::FrontMatter),
        prepare: |size| rule(&format!("paths: \"{}\"", "{a}".repeat(size / 3))),
    },
    Reader {
        name: "rules of Claude Code",
        input: "files with `paths:`",
        limit: 20_000,
        prepare: |count| {
            let mut tree = MemoryTree::default();
            for number in 0..count {
                let text = format!("---\npaths: src/{number}/**\n---\nRule {number}.\n");
                tree.write(format!("/r/.claude/rules/{number}.md"), text);
            }
            explained(tree, Edition::Claude)
        },
    },
    Reader {
        name: "rules of Claude Code",
        input: "files without",
        limit: 20_000,
        prepare: |count| {
            let mut tree = MemoryTree::default();
            for number in 0..count {
                tree.write(format!("/r/.claude/rules/{number}.md"), format!("Rule {number}.\n"));
            }
            explained(tree, Edition::Claude)
        },
    },
    Reader {
        name: "CLAUDE.md",
        input: "`(@a`",
        limit: 4 * MIB,
        prepare: |size| document("CLAUDE.md", &"(@a".repeat(size / 3), Edition::Claude),
    },
    Reader {
        name: "CLAUDE.md",
        input: "`@a/b `",
        limit: 4 * MIB,
        prepare: |size| document("CLAUDE.md", &"@a/b ".repeat(size / 5), Edition::Claude),
    },
    Reader {
        name: "CLAUDE.md",
        input: "`<!--`",
        limit: 4 * MIB,
        prepare: |size| document("CLAUDE.md", &"<!--".repeat(size / 4), Edition::Claude),
    },
    Reader {
        name: "CLAUDE.md",
        input: "`[`",
        limit: 4 * MIB,
        prepare: |size| document("CLAUDE.md", &format!("@ {}", "[".repeat(size)), Edition::Claude),
    },
    Reader {
        name: "GEMINI.md",
        input: "`@a `",
        limit: 4 * MIB,
        prepare: |size| document("GEMINI.md", &"@a ".repeat(size / 3), Edition::Gemini),
    },
    Reader {
        name: "GEMINI.md",
        input: "one path of `@a/a/a…`",
        limit: 4 * MIB,
        prepare: |size| {
            document("GEMINI.md", &format!("@{}", "a/".repeat(size / 2)), Edition::Gemini)
        },
    },
    Reader {
        name: "GEMINI.md",
        input: "backticks in runs",
        limit: 4 * MIB,
        prepare: |size| {
            document("GEMINI.md", &format!("@a {}", "`` ` ".repeat(size / 5)), Edition::Gemini)
        },
    },
    Reader {
        name: "settings of Gemini CLI",
        input: "names in `fileName`",
        limit: limit(FileKind::Configuration) / 4,
        prepare: |size| {
            let names: Vec<_> = (0..size / 10).map(|number| format!("\"{number:07}\"")).collect();
            let text = format!("{{\"context\": {{\"fileName\": [{}]}}}}", names.join(","));
            document(".gemini/settings.json", &text, Edition::Gemini)
        },
    },
    Reader {
        name: "settings of Claude Code",
        input: "globs in `claudeMdExcludes`",
        limit: limit(FileKind::Configuration),
        prepare: |size| {
            let globs: Vec<_> =
                (0..size / 16).map(|number| format!("\"**/{number:07}/*\"")).collect();
            let text = format!("{{\"claudeMdExcludes\": [{}]}}", globs.join(","));
            document(".claude/settings.json", &text, Edition::Claude)
        },
    },
    Reader {
        name: "config.toml of Codex",
        input: "`[`",
        limit: limit(FileKind::Configuration),
        prepare: |size| layers(&"[".repeat(size)),
    },
    Reader {
        name: "config.toml of Codex",
        input: "`a.a.a…`",
        limit: limit(FileKind::Configuration),
        prepare: |size| layers(&format!("{}a = 1", "a.".repeat(size / 2))),
    },
    Reader {
        name: "config.toml of Codex",
        input: "projects",
        limit: limit(FileKind::Configuration),
        prepare: |size| {
            let project =
                |number| format!("[projects.\"/p/{number:07}\"]\ntrust_level = \"trusted\"\n");
            layers(&(0..size / 49).map(project).collect::<String>())
        },
    },
    Reader {
        name: "documents of Codex",
        input: "fallback names",
        limit: 400_000,
        prepare: |count| {
            let mut tree = MemoryTree::default();
            tree.write("/r/.git/HEAD", "");
            let names: Vec<_> = (0..count).map(|number| format!("{number}.md")).collect();
            Box::new(move || {
                let settings = Settings {
                    rules: Rules::V0_166,
                    cwd: Path::new("/r"),
                    max_bytes: 1 << 15,
                    fallback_names: &names,
                    root_markers: &[".git".to_owned()],
                    trust: Trust::Trusted,
                };
                assert!(discover(&tree, &settings).documents.is_empty());
            })
        },
    },
    Reader {
        name: "assemble",
        input: "a line of `[`",
        limit: 16 * MIB,
        prepare: |size| line(format!("{}\n", "[".repeat(size))),
    },
    Reader {
        name: "assemble",
        input: "a line over the limit",
        limit: 64 * MIB,
        prepare: |size| line(format!("{}\n", "x".repeat(size))),
    },
];

fn rule(front: &str) -> Box<dyn FnMut()> {
    document(".claude/rules/a.md", &format!("---\n{front}\n---\nRule.\n"), Edition::Claude)
}

fn document(name: &str, text: &str, edition: Edition) -> Box<dyn FnMut()> {
    let mut tree = MemoryTree::default();
    tree.write(Path::new("/r").join(name), text);
    explained(tree, edition)
}

fn explained(mut tree: MemoryTree, edition: Edition) -> Box<dyn FnMut()> {
    tree.write("/r/.git/HEAD", "ref: refs/heads/main");
    let mut session = Session::new("/r", "/h");
    session.variables.insert("GEMINI_CLI_TRUST_WORKSPACE".into(), "true".into());
    Box::new(move || drop(explain(&tree, &session, &[edition])))
}

fn layers(text: &str) -> Box<dyn FnMut()> {
    let mut tree = MemoryTree::default();
    tree.write("/h/.codex/config.toml", text);
    Box::new(move || {
        let home = Path::new("/h");
        drop(Layers::load(&tree, &home.join(".codex"), Some(home), Path::new("/r"), &[]));
    })
}

fn line(text: String) -> Box<dyn FnMut()> {
    Box::new(move || {
        let answered = assemble_lines(text.as_bytes(), std::io::sink(), 16 * MIB as u64);
        assert!(answered.is_ok());
    })
}
