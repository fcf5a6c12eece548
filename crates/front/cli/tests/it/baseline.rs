//! `explain --baseline`: what it catches and what it lets pass.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::context::TestContext;

const FILE: &str = ".convoke/baseline.toml";

/// A change of a repository.
enum Edit<'e> {
    Write(&'e str, String),
    Append(&'e str, &'e str),
    Replace(&'e str, &'e str, &'e str),
    Remove(&'e str),
    Rename(&'e str, &'e str),
    Link(&'e str, &'e str),
}
use Edit::{Append, Link, Remove, Rename, Replace, Write};

fn text(text: &str) -> String {
    text.to_owned()
}

/// A repository with its baseline, committed.
struct Repository {
    context: TestContext,
}

impl Repository {
    /// Copies a repository, for a case of its own.
    fn copy(&self) -> Self {
        let copy = Self { context: TestContext::new().env("PATH", "/usr/bin:/bin") };
        let mut command = Command::new("cp");
        let copied = command.arg("-a").arg(self.path(".")).arg(copy.path("."));
        assert!(copied.status().unwrap().success());
        copy
    }

    fn new(files: &[(&str, &str)], links: &[(&str, &str)]) -> Self {
        let repository = Self { context: TestContext::new().env("PATH", "/usr/bin:/bin") };
        for (path, text) in files {
            repository.edit(&Write(path, (*text).to_owned()));
        }
        for (path, target) in links {
            repository.edit(&Link(path, target));
        }
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        let (output, code) = repository.explain(&["--update"]);
        assert_eq!(code, 0, "{output}");
        repository.commit("Begin");
        repository
    }

    /// A workspace with instructions for three programs, skills, rules and packages.
    fn shop() -> Self {
        let lines = "Keep functions short and name them after what they return.\n".repeat(30);
        let agents = format!("# Shop\n\n{lines}");
        let skill = |name: &str| {
            format!("---\nname: {name}\ndescription: How to {name} the shop.\n---\nSteps.\n")
        };
        let (deploy, test) = (skill("deploy"), skill("test"));
        Self::new(
            &[
                ("AGENTS.md", &agents),
                ("CLAUDE.md", "@AGENTS.md\n\n@docs/style.md\n"),
                ("docs/style.md", "Write short sentences, and no jokes.\n"),
                (".claude/rules/ts.md", "Types are exported by name.\n"),
                (".claude/settings.json", "{}\n"),
                (".agents/skills/deploy/SKILL.md", &deploy),
                (".agents/skills/test/SKILL.md", &test),
                ("packages/api/package.json", "{}\n"),
                ("packages/api/AGENTS.md", "Never log tokens of users.\n"),
                ("packages/web/package.json", "{}\n"),
                ("packages/web/CLAUDE.md", "Prefer plain CSS to frameworks.\n"),
                ("src/main.ts", "console.log(1)\n"),
                (".gitignore", "node_modules/\n*.local.*\n"),
            ],
            &[("GEMINI.md", "AGENTS.md"), (".claude/skills", "../.agents/skills")],
        )
    }

    /// A repository with one file for all programs.
    fn library() -> Self {
        let agents = "Every public function has a test and a line of documentation.\n".repeat(12);
        Self::new(
            &[("AGENTS.md", &agents), ("Cargo.toml", "[package]\n")],
            &[("GEMINI.md", "AGENTS.md")],
        )
    }

    fn path(&self, path: &str) -> PathBuf {
        self.context.path().join(path)
    }

    fn edit(&self, edit: &Edit<'_>) {
        let prepare = |path: &str| {
            let path = self.path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        let read = |path: &str| std::fs::read_to_string(self.path(path)).unwrap();
        match edit {
            Write(path, text) => std::fs::write(prepare(path), text).unwrap(),
            Append(path, text) => std::fs::write(prepare(path), read(path) + text).unwrap(),
            Replace(path, from, to) => {
                let before = read(path);
                assert!(before.contains(from), "{path} has no {from}");
                std::fs::write(self.path(path), before.replace(from, to)).unwrap();
            }
            Remove(path) if self.path(path).is_dir() && !self.path(path).is_symlink() => {
                std::fs::remove_dir_all(self.path(path)).unwrap();
            }
            Remove(path) => std::fs::remove_file(self.path(path)).unwrap(),
            Rename(from, to) => std::fs::rename(self.path(from), prepare(to)).unwrap(),
            Link(path, target) => symlink(target, prepare(path)).unwrap(),
        }
    }

    fn git(&self, arguments: &[&str]) {
        let ran = Command::new("git")
            .args(["-c", "user.name=Ann", "-c", "user.email=ann@example.org"])
            .args(arguments)
            .current_dir(self.context.path())
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }

    fn commit(&self, subject: &str) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", subject]);
    }

    fn explain(&self, arguments: &[&str]) -> (String, i32) {
        let arguments = [&["explain", "--baseline", FILE], arguments].concat();
        let output = self.context.command(&arguments).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (text(&output.stdout) + &text(&output.stderr), output.status.code().unwrap())
    }

    fn regressions(&self) -> Vec<Value> {
        let (output, code) = self.explain(&["--format", "json"]);
        let report: Value = serde_json::from_str(&output).expect(&output);
        let regressions = report["regressions"].as_array().unwrap().clone();
        assert_eq!(code, if regressions.is_empty() { 0 } else { 3 }, "{output}");
        regressions
    }
}

/// What must be caught: the name of the case, the edits, and a code and a subject that must be among the regressions.
fn regressions() -> Vec<(&'static str, Vec<Edit<'static>>, &'static str, &'static str)> {
    let long = "One more rule that nobody will remember when it matters.\n".repeat(60);
    let huge = "A paragraph about the history of this repository and its people.\n".repeat(700);
    let utf16: Vec<u8> = "Rules".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let utf16 = String::from_utf8(utf16).unwrap();
    let description = "word ".repeat(600);
    let (lost, grown, loss, skill) =
        ("baseline.file-lost", "baseline.growth", "baseline.new-loss", "baseline.skill-lost");
    vec![
        ("more text", vec![Write("AGENTS.md", long.clone())], grown, "AGENTS.md"),
        (
            "more text in an import",
            vec![Write("docs/style.md", long.clone())],
            grown,
            "docs/style.md",
        ),
        (
            "more text below",
            vec![Write("packages/api/AGENTS.md", long.clone())],
            grown,
            "packages/api/AGENTS.md",
        ),
        (
            "a new import",
            vec![Write("docs/new.md", long.clone()), Append("CLAUDE.md", "@docs/new.md\n")],
            grown,
            "docs/new.md",
        ),
        ("a new rule", vec![Write(".claude/rules/new.md", long)], grown, ".claude/rules/new.md"),
        ("over the limit of Codex", vec![Write("AGENTS.md", huge)], loss, "AGENTS.md"),
        (
            "a removed import",
            vec![Replace("CLAUDE.md", "@docs/style.md\n", "")],
            lost,
            "docs/style.md",
        ),
        (
            "an import in prose",
            vec![Replace("CLAUDE.md", "@docs/style.md", "`@docs/style.md`")],
            lost,
            "docs/style.md",
        ),
        ("a deleted import", vec![Remove("docs/style.md")], lost, "docs/style.md"),
        ("a deleted import is missing", vec![Remove("docs/style.md")], loss, "CLAUDE.md"),
        ("a moved import", vec![Rename("docs/style.md", "guide/style.md")], lost, "docs/style.md"),
        ("a name in lower case", vec![Rename("CLAUDE.md", "claude.md")], lost, "CLAUDE.md"),
        ("a name in another case", vec![Rename("AGENTS.md", "Agents.md")], lost, "AGENTS.md"),
        ("a removed link", vec![Remove("GEMINI.md")], lost, "GEMINI.md"),
        (
            "a link that leads nowhere",
            vec![Remove("GEMINI.md"), Link("GEMINI.md", "AGENT.md")],
            lost,
            "GEMINI.md",
        ),
        (
            "an excluded file",
            vec![Write(".claude/settings.json", text(r#"{"claudeMdExcludes": ["**/docs/**"]}"#))],
            lost,
            "docs/style.md",
        ),
        (
            "a denied file",
            vec![Write(
                ".claude/settings.json",
                text(r#"{"permissions": {"deny": ["Read(docs/**)"]}}"#),
            )],
            lost,
            "docs/style.md",
        ),
        (
            "an override",
            vec![Write("AGENTS.override.md", text("For this week: be fast.\n"))],
            lost,
            "AGENTS.md",
        ),
        (
            "a blank file",
            vec![Write("packages/api/AGENTS.md", text("\n"))],
            lost,
            "packages/api/AGENTS.md",
        ),
        (
            "a directory in its place",
            vec![Remove("docs/style.md"), Write("docs/style.md/x", text(""))],
            lost,
            "docs/style.md",
        ),
        (
            "a conditional rule",
            vec![Write(".claude/rules/ts.md", text("---\npaths: \"**/*.ts\"\n---\nTypes.\n"))],
            lost,
            ".claude/rules/ts.md",
        ),
        (
            "front matter that is no YAML",
            vec![Write(
                ".claude/rules/ts.md",
                text("---\npaths: \"**/*.ts\n  x: [\n---\nTypes.\n"),
            )],
            loss,
            ".claude/rules/ts.md",
        ),
        ("UTF-16", vec![Write("docs/style.md", utf16)], loss, "docs/style.md"),
        (
            "an import from outside",
            vec![Append("CLAUDE.md", "@../../elsewhere.md\n")],
            loss,
            "CLAUDE.md",
        ),
        ("a missing import", vec![Append("CLAUDE.md", "@docs/none.md\n")], loss, "CLAUDE.md"),
        ("a removed skill", vec![Remove(".agents/skills/deploy")], skill, "deploy"),
        ("a removed link to skills", vec![Remove(".claude/skills")], skill, "deploy"),
        (
            "a skill without a description",
            vec![Write(".agents/skills/deploy/SKILL.md", text("Steps.\n"))],
            skill,
            "deploy",
        ),
        (
            "a skill that is switched off",
            vec![Write(".claude/settings.json", text(r#"{"skillOverrides": {"deploy": "off"}}"#))],
            skill,
            "deploy",
        ),
        (
            "a description that is cut",
            vec![Write(
                ".agents/skills/test/SKILL.md",
                format!("---\nname: test\ndescription: {description}\n---\n"),
            )],
            loss,
            ".claude/skills/test/SKILL.md",
        ),
    ]
}

#[test]
fn every_planted_regression_is_caught_with_its_file() {
    let original = Repository::shop();
    for (name, edits, code, subject) in regressions() {
        let shop = original.copy();
        for edit in &edits {
            shop.edit(edit);
        }
        let found = shop.regressions();
        let is_it = |it: &&Value| it["code"] == code && it["subject"] == subject;
        let caught = found.iter().find(is_it);
        assert!(caught.is_some(), "{name}: {found:#?}");
        let file = caught.and_then(|it| it["file"].as_str()).unwrap_or_default();
        assert!(!file.is_empty(), "{name}: {caught:#?}");
    }
}

#[test]
fn no_harmless_edit_is_taken_for_a_regression() {
    let skill = "---\nname: undo\ndescription: How to undo.\n---\nSteps.\n";
    let cases: Vec<(&str, Vec<Edit<'_>>)> = vec![
        ("nothing", vec![]),
        ("a corrected word", vec![Replace("AGENTS.md", "short", "brief")]),
        ("a line more", vec![Append("AGENTS.md", "And test what may break.\n")]),
        ("a line less", vec![Replace("docs/style.md", ", and no jokes", "")]),
        ("blank lines", vec![Append("CLAUDE.md", "\n\n")]),
        ("code", vec![Write("src/main.ts", text("console.log(2)\n"))]),
        ("a large file of code", vec![Write("src/big.ts", "let a = 1\n".repeat(9_000))]),
        ("a page of documentation", vec![Write("docs/usage.md", "Words. ".repeat(900))]),
        (
            "a moved import with its line",
            vec![Rename("docs/style.md", "docs/guide.md"), Replace("CLAUDE.md", "style", "guide")],
        ),
        ("a comment", vec![Append("CLAUDE.md", "<!-- the order matters -->\n")]),
        ("notes of one person", vec![Write("CLAUDE.local.md", "Mine. ".repeat(900))]),
        (
            "settings of one person",
            vec![Write(".claude/settings.local.json", text(r#"{"claudeMdExcludes": ["**"]}"#))],
        ),
        (
            "ignored packages",
            vec![
                Write("node_modules/x/AGENTS.md", "Theirs. ".repeat(900)),
                Write("node_modules/x/package.json", text("{}")),
            ],
        ),
        ("a new package", vec![Write("packages/new/package.json", text("{}"))]),
        (
            "a new package with instructions",
            vec![
                Write("packages/new/package.json", text("{}")),
                Write("packages/new/AGENTS.md", "Own rules. ".repeat(400)),
            ],
        ),
        ("a removed package", vec![Remove("packages/web")]),
        ("a new skill", vec![Write(".agents/skills/undo/SKILL.md", text(skill))]),
        ("the steps of a skill", vec![Append(".agents/skills/test/SKILL.md", "More steps.\n")]),
        (
            "a description",
            vec![Replace(".agents/skills/test/SKILL.md", "How to", "When and how to")],
        ),
        (
            "a rule for some files",
            vec![Write(".claude/rules/css.md", text("---\npaths: \"**/*.css\"\n---\nPlain.\n"))],
        ),
        ("other settings", vec![Write(".claude/settings.json", text(r#"{"env": {"A": "1"}}"#))]),
        ("a hook", vec![Write(".claude/settings.json", text(r#"{"hooks": {}}"#))]),
        ("an ignored file", vec![Write("a.local.md", text("x"))]),
        ("a file of another tool", vec![Write(".cursorrules", text("Use tabs.\n"))]),
        (
            "a file instead of a link",
            vec![Remove(".claude/skills"), Link(".claude/skills", "../.agents/skills/")],
        ),
        ("a deleted source", vec![Remove("src/main.ts")]),
        ("a sorted list", vec![Write("CLAUDE.md", text("@docs/style.md\n\n@AGENTS.md\n"))]),
        ("a shorter file", vec![Write("packages/api/AGENTS.md", text("Never log tokens.\n"))]),
        ("documentation below", vec![Write("packages/web/README.md", text("# Web\n"))]),
        ("an empty directory", vec![Write("tmp/.keep", String::new())]),
    ];
    let original = Repository::shop();
    for (name, edits) in cases {
        let shop = original.copy();
        for edit in &edits {
            shop.edit(edit);
        }
        assert_eq!(shop.regressions(), [Value::Null; 0], "{name}");
    }
}

#[test]
fn a_new_file_that_shadows_the_source_of_all_is_caught() {
    let library = Repository::library();
    library.edit(&Write("CLAUDE.md", text("Be brief.\n")));
    let found = library.regressions();
    assert_eq!(
        (&found[0]["code"], &found[0]["subject"]),
        (&"baseline.file-lost".into(), &"AGENTS.md".into())
    );
    assert_eq!((&found[0]["file"], &found[0]["commit"]), (&"CLAUDE.md".into(), &Value::Null));
}

#[test]
fn the_line_and_the_commit_that_did_it_are_named() {
    let shop = Repository::shop();
    shop.edit(&Append("src/main.ts", "// more\n"));
    shop.commit("Unrelated");
    shop.edit(&Replace("CLAUDE.md", "@docs/style.md\n", ""));
    shop.commit("Drop the style");
    shop.edit(&Append("AGENTS.md", &"A rule of many, many words about very little.\n".repeat(20)));
    shop.commit("Explain more");
    shop.edit(&Append("src/main.ts", "// and more\n"));
    shop.commit("Unrelated again");
    let found = shop.regressions();
    let of = |code: &str| found.iter().find(|it| it["code"] == code).unwrap().clone();
    let (lost, grown) = (of("baseline.file-lost"), of("baseline.growth"));
    assert_eq!(
        (&lost["file"], &lost["commit"]["subject"]),
        (&"CLAUDE.md".into(), &"Drop the style".into())
    );
    assert_eq!((&grown["file"], &grown["line"]), (&"AGENTS.md".into(), &33.into()));
    assert_eq!(grown["commit"]["subject"], "Explain more");
    // Accepted, it is the new baseline.
    let (_, code) = shop.explain(&["--update"]);
    assert_eq!((code, shop.regressions().len()), (0, 0));
}

#[test]
fn a_baseline_is_the_same_on_every_machine() {
    let shop = Repository::shop();
    let before = std::fs::read_to_string(shop.path(FILE)).unwrap();
    let home = shop.context.home();
    for (path, text) in [
        (".claude/CLAUDE.md", "Mine.\n"),
        (".codex/AGENTS.md", "Mine.\n"),
        ("CLAUDE.md", "Mine.\n"),
    ] {
        std::fs::create_dir_all(home.join(path).parent().unwrap()).unwrap();
        std::fs::write(home.join(path), text.repeat(500)).unwrap();
    }
    let elsewhere = home.join("far/away/shop");
    std::fs::create_dir_all(&elsewhere).unwrap();
    let copied = Command::new("cp").arg("-a").arg(shop.path(".")).arg(&elsewhere).status().unwrap();
    assert!(copied.success());
    let explained = shop
        .context
        .command(&["explain", "--baseline", FILE, "--update"])
        .current_dir(elsewhere.join("packages/web"))
        .env("HOME", home)
        .env("CODEX_HOME", home.join(".codex"))
        .output()
        .unwrap();
    // The file is named from where the command runs.
    assert_eq!(explained.status.code(), Some(0), "{}", String::from_utf8_lossy(&explained.stderr));
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    assert_eq!(read(&elsewhere.join("packages/web").join(FILE)), before);
}

#[test]
fn budgets_and_mistakes_have_their_exit_codes() {
    let shop = Repository::shop();
    let budget =
        "\n[budget]\nmax-tokens = 100\n\n[budget.gemini]\nmax-tokens = 100000\n\n[directory.\".\"]";
    shop.edit(&Replace(FILE, "\n[directory.\".\"]", budget));
    let found = shop.regressions();
    assert!(found.iter().all(|it| it["code"] == "baseline.over-budget"), "{found:#?}");
    assert!(found.iter().all(|it| !it["agents"].as_array().unwrap().contains(&"gemini".into())));
    // An update keeps the limits.
    assert_eq!(shop.explain(&["--update"]).1, 0);
    assert!(!shop.regressions().is_empty());
    // A baseline that the work has changed is not that of where it began.
    assert_eq!(shop.explain(&["--against", "main"]).1, 0);
    for (text, message) in [
        ("version = 1\n[editions]\nclaude = \"9.9\"\n", "unknown agent"),
        ("<<<<<<< HEAD\n", ":1: "),
    ] {
        shop.edit(&Write(FILE, text.to_owned()));
        let (output, code) = shop.explain(&[]);
        assert!(code == 2 && output.contains(message), "{code} {output}");
    }
    shop.edit(&Remove(FILE));
    let (output, code) = shop.explain(&[]);
    assert!(code == 2 && output.contains("does not exist"), "{code} {output}");
    assert!(!shop.path(FILE).exists());
}

#[test]
fn an_older_edition_is_reported_and_still_compared_by_its_own_rules() {
    let shop = Repository::shop();
    assert_eq!(shop.explain(&["--update", "--agent", "claude@2.1.197,codex@0.98,gemini"]).1, 0);
    let (output, code) = shop.explain(&[]);
    assert!(code == 0 && output.contains("baseline.edition-new"), "{output}");
    assert!(std::fs::read_to_string(shop.path(FILE)).unwrap().contains("claude = \"2.1.197\""));
}

#[test]
fn every_format_names_the_regression() {
    let shop = Repository::shop();
    shop.edit(&Replace("CLAUDE.md", "@docs/style.md\n", ""));
    let of = |format: &str| shop.explain(&["--format", format]).0;
    let sarif: Value = serde_json::from_str(&of("sarif")).unwrap();
    let parsed: serde_sarif::sarif::Sarif = serde_json::from_value(sarif.clone()).unwrap();
    assert_eq!(serde_json::to_value(&parsed).unwrap(), sarif);
    assert_eq!(sarif["runs"][0]["results"][0]["ruleId"], "baseline.file-lost");
    assert!(of("github").starts_with("::error file=CLAUDE.md,line="), "{}", of("github"));
    let markdown = of("markdown");
    assert!(
        markdown.contains("| `.` | Claude Code |") && markdown.contains("`baseline.file-lost`"),
        "{markdown}"
    );
}

#[test]
fn all_directories_are_explained_at_once() {
    let shop = Repository::shop();
    let all = |arguments: &[&str]| {
        let arguments = [&["explain", "--all-dirs"], arguments].concat();
        let output = shop.context.command(&arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let report: Value = serde_json::from_str(&all(&["--json"])).unwrap();
    let directories = report["directories"].as_array().unwrap();
    let names: Vec<&str> = directories
        .iter()
        .map(|it| it["cwd"].as_str().unwrap().rsplit('/').next().unwrap())
        .collect();
    assert_eq!(names[1..], ["api", "web"]);
    // Each is explained as it is alone.
    let alone = shop.context.command(&["explain", "packages/web", "--json"]).output().unwrap();
    let alone: Value = serde_json::from_slice(&alone.stdout).unwrap();
    assert_eq!(directories[2]["agents"], alone["agents"]);
    assert!(all(&[]).contains("packages/api"));
    assert!(all(&["--format", "markdown"]).contains("| `packages/web` |"));
}
