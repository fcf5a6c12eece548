//! The readers of a project's files.

use std::path::Path;

use convoke_agent::env_file;
use convoke_codex::config::{ConfigPlaces, Layers};
use convoke_codex::project_doc::{Rules, Settings, Trust, discover};
use convoke_explain::{Edition, Session, explain};
use convoke_files::{FileKind, MemoryTree};
use convoke_pipe::assemble::{UnknownFields, assemble_lines};

use super::{MIB, Reader, numbered, repeated};

/// The largest document that Claude Code takes.
const DOCUMENT: usize = 4 * MIB;

pub(super) const READERS: &[Reader] = &[
    front_matter("`[`", |bytes| repeated("[", bytes)),
    front_matter("`- `", |bytes| repeated("- ", bytes)),
    front_matter("aliases", |bytes| {
        format!("a: &a [x, x]\npaths: [{}]", repeated("*a, ", bytes - 24))
    }),
    front_matter("`{a,b}` in `paths:`", |bytes| {
        format!("paths: \"{}\"", repeated("{a,b}", bytes - 9))
    }),
    front_matter("`{a}` in `paths:`", |bytes| format!("paths: \"{}\"", repeated("{a}", bytes - 9))),
    skill("`[`", |bytes| repeated("[", bytes)),
    skill("one long description", |bytes| {
        format!("name: a\ndescription: {}", repeated("use it ", bytes - 21))
    }),
    skill("keys", |bytes| numbered(bytes / 12, |number| format!("k{number:07}: x\n"))),
    env_file("`a=`", |bytes| repeated("a=", bytes)),
    env_file("`a =`", |bytes| repeated("a =", bytes)),
    env_file("`export `", |bytes| repeated("export ", bytes)),
    env_file("line breaks before `=`", |bytes| repeated("\n\n\n=", bytes)),
    rule_files("files with `paths:`", |bytes| {
        let rule = |number| format!("---\npaths: s/{number:08}/**\n---\nRule.\n\0");
        numbered(bytes / 38, rule)
    }),
    rule_files("files without", |bytes| {
        numbered(bytes / 38, |number| format!("Rule {number:031}\n\0"))
    }),
    claude("`(@a`", |bytes| repeated("(@a", bytes)),
    claude("`@a/b `", |bytes| repeated("@a/b ", bytes)),
    claude("`<!--`", |bytes| repeated("<!--", bytes)),
    claude("`[`", |bytes| format!("@ {}", repeated("[", bytes))),
    gemini("`@a `", |bytes| repeated("@a ", bytes)),
    gemini("one path of `@a/a/a…`", |bytes| format!("@{}", repeated("a/", bytes))),
    gemini("backticks in runs", |bytes| format!("@a {}", repeated("`` ` ", bytes))),
    Reader {
        name: "settings of Gemini CLI",
        input: "names in `fileName`",
        limit: MIB,
        make: |bytes| {
            let names: Vec<_> = (0..bytes / 10).map(|number| format!("\"{number:07}\"")).collect();
            format!("{{\"context\": {{\"fileName\": [{}]}}}}", names.join(","))
        },
        read: |text| {
            explained(&[(".gemini/settings.json", text)], "gemini");
        },
    },
    Reader {
        name: "settings of Claude Code",
        input: "globs in `claudeMdExcludes`",
        limit: limit(FileKind::Configuration),
        make: |bytes| {
            let glob = |number| format!("\"**/{number:07}/*\"");
            let globs: Vec<_> = (0..bytes / 16).map(glob).collect();
            format!("{{\"claudeMdExcludes\": [{}]}}", globs.join(","))
        },
        read: |text| {
            explained(&[(".claude/settings.json", text)], "claude");
        },
    },
    config("`[`", |bytes| repeated("[", bytes)),
    config("`a.a.a…`", |bytes| format!("{}a = 1", repeated("a.", bytes - 8))),
    config("projects", |bytes| {
        let project =
            |number| format!("[projects.\"/p/{number:07}\"]\ntrust_level = \"trusted\"\n");
        numbered(bytes / 49, project)
    }),
    Reader {
        name: "documents of Codex",
        input: "fallback names",
        limit: limit(FileKind::Configuration),
        make: |bytes| numbered(bytes / 10, |number| format!("{number:09}\n")),
        read: |text| {
            let mut tree = MemoryTree::default();
            tree.write("/r/.git/HEAD", "");
            let names: Vec<String> = text.lines().map(str::to_owned).collect();
            let settings = Settings {
                rules: Rules::V0_166,
                cwd: Path::new("/r"),
                max_bytes: 1 << 15,
                fallback_names: &names,
                root_markers: &[".git".to_owned()],
                trust: Trust::Trusted,
            };
            assert!(discover(&tree, &settings).documents.is_empty());
        },
    },
    Reader {
        name: "assemble",
        input: "a line of `[`",
        limit: 16 * MIB,
        make: |bytes| repeated("[", bytes),
        read: |text| {
            assert!(
                assemble_lines(text.as_bytes(), std::io::sink(), 1 << 30, UnknownFields::Ignored)
                    .is_ok()
            );
        },
    },
    Reader {
        name: "assemble",
        input: "a line over the limit",
        limit: 16 * MIB,
        make: |bytes| repeated("x", bytes),
        read: |text| {
            assert!(
                assemble_lines(text.as_bytes(), std::io::sink(), 1 << 10, UnknownFields::Ignored)
                    .is_ok()
            );
        },
    },
];

/// The most bytes of a file of a kind.
#[expect(clippy::cast_possible_truncation, reason = "limits fit into memory")]
const fn limit(kind: FileKind) -> usize {
    kind.limit() as usize
}

const fn front_matter(input: &'static str, make: fn(usize) -> String) -> Reader {
    let read = |front: &str| {
        let text = format!("---\n{front}\n---\nRule.\n");
        explained(&[(".claude/rules/a.md", &text)], "claude");
    };
    Reader {
        name: "front matter of a rule",
        input,
        limit: limit(FileKind::FrontMatter),
        make,
        read,
    }
}

const fn skill(input: &'static str, make: fn(usize) -> String) -> Reader {
    let read = |front: &str| {
        let text = format!("---\n{front}\n---\nDo it.\n");
        explained(&[(".claude/skills/a/SKILL.md", &text)], "claude");
    };
    let limit = limit(FileKind::FrontMatter);
    Reader { name: "front matter of a skill", input, limit, make, read }
}

const fn env_file(input: &'static str, make: fn(usize) -> String) -> Reader {
    let read = |text: &str| env_file::names(text).for_each(drop);
    Reader { name: "`.env`", input, limit: limit(FileKind::Variables), make, read }
}

/// Files that are separated by a zero.
const fn rule_files(input: &'static str, make: fn(usize) -> String) -> Reader {
    let read = |text: &str| {
        let names: Vec<_> =
            (0..20_000).map(|number| format!(".claude/rules/{number}.md")).collect();
        let files: Vec<_> =
            names.iter().map(String::as_str).zip(text.split_terminator('\0')).collect();
        explained(&files, "claude");
    };
    // 20,000 files, which are as many as are looked at.
    Reader { name: "rules of Claude Code", input, limit: 760_000, make, read }
}

const fn claude(input: &'static str, make: fn(usize) -> String) -> Reader {
    let read = |text: &str| explained(&[("CLAUDE.md", text)], "claude");
    Reader { name: "CLAUDE.md", input, limit: DOCUMENT, make, read }
}

const fn gemini(input: &'static str, make: fn(usize) -> String) -> Reader {
    let read = |text: &str| explained(&[("GEMINI.md", text)], "gemini");
    Reader { name: "GEMINI.md", input, limit: DOCUMENT, make, read }
}

const fn config(input: &'static str, make: fn(usize) -> String) -> Reader {
    let read = |text: &str| {
        let mut tree = MemoryTree::default();
        tree.write("/h/.codex/config.toml", text);
        let places = ConfigPlaces {
            machine: Path::new("/etc/codex"),
            codex_home: Path::new("/h/.codex"),
            home: Some(Path::new("/h")),
            cwd: Path::new("/r"),
            profile: None,
        };
        drop(Layers::load(&tree, places, []));
    };
    Reader {
        name: "config.toml of Codex",
        input,
        limit: limit(FileKind::Configuration),
        make,
        read,
    }
}

fn explained(files: &[(&str, &str)], agent: &str) {
    let editions: Vec<Edition> = convoke_vendors::edition(agent).into_iter().collect();
    let mut tree = MemoryTree::default();
    tree.write("/r/.git/HEAD", "ref: refs/heads/main");
    for (name, text) in files {
        tree.write(Path::new("/r").join(name), *text);
    }
    let mut session = Session::new("/r", "/h");
    session.variables.insert("GEMINI_CLI_TRUST_WORKSPACE".into(), "true".into());
    drop(explain(&tree, &session, &editions));
}
