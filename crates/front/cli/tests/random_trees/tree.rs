//! A random tree: a repository or none, a home, a directory beside them, and settings.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use fastrand::Rng;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::texts;

/// A tree on disk, and how a program is started in it.
pub struct Tree {
    root: TempDir,
    pub cwd: PathBuf,
    pub arguments: Vec<String>,
    pub variables: Vec<(String, String)>,
    /// What was laid out, in order.
    steps: Vec<String>,
}

/// The directories of every tree, below its root.
const DIRECTORIES: [&str; 6] = ["home", "repo", "repo/sub", "repo/sub/deep", "added", "."];

impl Tree {
    pub fn random(seed: u64, agent: &str) -> Self {
        let mut random = Rng::with_seed(seed);
        let root = TempDir::new().unwrap();
        let mut tree = Self {
            cwd: PathBuf::new(),
            root,
            arguments: Vec::new(),
            variables: Vec::new(),
            steps: Vec::new(),
        };
        for directory in DIRECTORIES {
            std::fs::create_dir_all(tree.path(directory)).unwrap();
        }
        let top = tree.lay_out_repository(&mut random);
        let start = ["", "/sub", "/sub/deep"][random.usize(..3)];
        tree.cwd = tree.path(&format!("{top}{start}")).canonicalize().unwrap();
        match agent {
            "claude" => tree.for_claude(&mut random, &top),
            "codex" => tree.for_codex(&mut random, &top),
            _ => tree.for_gemini(&mut random, &top),
        }
        tree
    }

    pub fn home(&self) -> PathBuf {
        self.path("home").canonicalize().unwrap()
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(below)
    }

    fn text(&self, path: &str) -> String {
        self.path(path).display().to_string()
    }

    /// Returns the directory in which the project begins: a repository, none, or one of its worktrees.
    fn lay_out_repository(&mut self, random: &mut Rng) -> String {
        let kind = random.u8(..6);
        self.steps.push(format!("kind of repository {kind}"));
        if kind == 0 {
            return "repo".to_owned();
        }
        self.git(&["init", "--quiet"]);
        if kind < 4 {
            return "repo".to_owned();
        }
        self.git(&["commit", "--quiet", "--allow-empty", "--message", "first"]);
        let worktree = if kind == 4 { "repo/trees/wt" } else { "wt" };
        self.git(&["worktree", "add", "--quiet", &self.text(worktree)]);
        std::fs::create_dir_all(self.path(&format!("{worktree}/sub/deep"))).unwrap();
        worktree.to_owned()
    }

    fn git(&self, arguments: &[&str]) {
        let names = ["-c", "user.name=n", "-c", "user.email=n@example.com"];
        let mut command = Command::new("git");
        command.args(names).args(arguments).current_dir(self.path("repo"));
        assert!(command.status().unwrap().success(), "{arguments:?}");
    }

    fn write(&mut self, path: &str, text: &str) {
        let full = self.path(path);
        if full.symlink_metadata().is_ok() {
            return;
        }
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        std::fs::write(full, text).unwrap();
        self.steps.push(format!("{path} = {text:?}"));
    }

    fn link(&mut self, random: &mut Rng, from: &str, to: &str) {
        let (full, target) = (self.path(from), self.path(to));
        if full.symlink_metadata().is_ok() || !target.exists() {
            return;
        }
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        let is_hard = target.is_file() && random.bool();
        if is_hard {
            std::fs::hard_link(target, full).unwrap();
        } else {
            std::os::unix::fs::symlink(target, full).unwrap();
        }
        self.steps.push(format!("{from} {} {to}", if is_hard { "=hard=>" } else { "->" }));
    }

    /// Returns the directories in which instructions may lie, those of the project and those around it.
    fn directories(top: &str) -> Vec<String> {
        let project = ["", "/sub", "/sub/deep"].map(|below| format!("{top}{below}"));
        project.into_iter().chain(["added", "repo", "."].map(str::to_owned)).collect()
    }

    /// Writes instruction files under some names in some directories, with imports of each other.
    fn instructions(&mut self, random: &mut Rng, top: &str, names: &[&str], users: &[&str]) {
        let mut places: Vec<String> = users.iter().map(|it| (*it).to_owned()).collect();
        for directory in Self::directories(top) {
            places.extend(names.iter().map(|name| format!("{directory}/{name}")));
        }
        for place in places {
            let directory =
                place.rsplit_once('/').map_or("", |(directory, _)| directory).to_owned();
            match random.u8(..14) {
                0..=4 => {
                    let imported = format!("{directory}/more.md");
                    let text = texts::instructions(random, &imported, &[]);
                    self.write(&imported, &text);
                    let outside = self.text("added/shared.md");
                    let imports = ["more.md", "./more.md", &outside].map(str::to_owned);
                    let text = texts::instructions(random, &place, &imports);
                    self.write(&place, &text);
                }
                5 => {
                    let text = texts::instructions(random, "shared", &[]);
                    self.write("added/shared.md", &text);
                    self.link(random, &place, "added/shared.md");
                }
                6 => self.link(random, &place, &format!("{top}/{}", names[0])),
                _ => {}
            }
        }
    }

    fn skills(&mut self, random: &mut Rng, places: &[String]) {
        for place in places {
            for name in ["alpha", "Beta", "gamma-2"] {
                if random.u8(..5) == 0 {
                    let text = texts::skill(random, name);
                    self.write(&format!("{place}/{name}/SKILL.md"), &text);
                }
            }
        }
    }

    fn json(&mut self, path: &str, value: &Value) {
        if value.as_object().is_some_and(|it| !it.is_empty()) {
            self.write(path, &value.to_string());
        }
    }

    fn for_claude(&mut self, random: &mut Rng, top: &str) {
        let names = [
            "CLAUDE.md",
            ".claude/CLAUDE.md",
            "CLAUDE.local.md",
            "AGENTS.md",
            ".claude/AGENTS.md",
            ".claude/rules/one.md",
            ".claude/rules/below/two.md",
        ];
        self.instructions(
            random,
            top,
            &names,
            &["home/.claude/CLAUDE.md", "home/.claude/rules/u.md"],
        );
        let mut places = vec!["home/.claude/skills".to_owned()];
        places.extend(Self::directories(top).iter().map(|it| format!("{it}/.claude/skills")));
        self.skills(random, &places);
        if random.u8(..3) == 0 {
            let text = texts::skill(random, "ship");
            self.write(&format!("{top}/.claude/commands/ship.md"), &text);
            self.write("repo/.claude/commands/of-main.md", "Do the work of the main checkout.\n");
        }
        let own = self.cwd.strip_prefix(self.path("")).unwrap().display().to_string();
        let files = ["home/.claude/settings.json".to_owned()].into_iter().chain(
            ["settings.json", "settings.local.json"].map(|it| format!("{own}/.claude/{it}")),
        );
        for file in files {
            let settings = claude_settings(random);
            self.json(&file, &settings);
        }
        if random.u8(..3) == 0 {
            self.arguments = vec!["--add-dir".to_owned(), self.text("added")];
        }
        if random.u8(..8) == 0 {
            let sources = ["user", "project", "user,project", "project,local"];
            let sources = sources[random.usize(..sources.len())];
            self.arguments.extend(["--setting-sources", sources].map(str::to_owned));
        }
    }

    fn for_codex(&mut self, random: &mut Rng, top: &str) {
        let names = ["AGENTS.md", "AGENTS.override.md", "OTHER.md", "docs/NOTES.md"];
        let users = ["home/.codex/AGENTS.md", "home/.codex/AGENTS.override.md"];
        self.instructions(random, top, &names, &users);
        let mut places = ["home/.codex/skills", "home/.agents/skills"].map(str::to_owned).to_vec();
        for directory in Self::directories(top) {
            places
                .extend([".agents/skills", ".codex/skills"].map(|it| format!("{directory}/{it}")));
        }
        self.skills(random, &places);
        let project = self.text(top);
        let trust = ["trusted", "untrusted", "trusted"][random.usize(..3)];
        let user = codex_settings(random);
        let user = format!("{user}\n[projects.{project:?}]\ntrust_level = \"{trust}\"\n");
        self.write("home/.codex/config.toml", &user);
        if random.u8(..3) == 0 {
            let settings = codex_settings(random);
            self.write(&format!("{top}/.codex/config.toml"), &settings);
        }
        if random.u8(..3) == 0 {
            let settings = codex_settings(random);
            self.write("home/.codex/work.config.toml", &settings);
            self.arguments = ["-p", "work"].map(str::to_owned).to_vec();
        }
        if random.u8(..4) == 0 {
            let limit = format!("project_doc_max_bytes={}", random.u32(1..400));
            self.arguments.extend(["-c".to_owned(), limit]);
        }
    }

    fn for_gemini(&mut self, random: &mut Rng, top: &str) {
        let names = ["GEMINI.md", "AGENTS.md", "docs/CONTEXT.md"];
        self.instructions(
            random,
            top,
            &names,
            &["home/.gemini/GEMINI.md", "home/.gemini/AGENTS.md"],
        );
        let mut places = ["home/.gemini/skills", "home/.agents/skills"].map(str::to_owned).to_vec();
        for directory in Self::directories(top) {
            places
                .extend([".gemini/skills", ".agents/skills"].map(|it| format!("{directory}/{it}")));
        }
        self.skills(random, &places);
        let user = gemini_settings(random);
        self.json("home/.gemini/settings.json", &user);
        if random.u8(..3) == 0 {
            let own = self.cwd.strip_prefix(self.path("")).unwrap().display().to_string();
            let settings = gemini_settings(random);
            self.json(&format!("{own}/.gemini/settings.json"), &settings);
        }
        if random.u8(..4) == 0 {
            self.arguments = vec!["--include-directories".to_owned(), self.text("added")];
        }
        if random.u8(..6) == 0 {
            let asks = if random.bool() { "${AgentSkills}" } else { "" };
            self.write("added/system.md", &format!("The system text of the user. {asks}\n"));
            self.variables = vec![("GEMINI_SYSTEM_MD".to_owned(), self.text("added/system.md"))];
        }
    }
}

fn claude_settings(random: &mut Rng) -> Value {
    let mut settings = json!({});
    if random.u8(..5) == 0 {
        let deny =
            ["Read(./CLAUDE.md)", "Read(AGENTS.md)", "Read(.claude/rules/**)", "Read(/CLAUDE.md)"];
        settings["permissions"] = json!({"deny": [deny[random.usize(..deny.len())]]});
    }
    if random.u8(..5) == 0 {
        let excluded = ["**/sub/CLAUDE.md", "**/rules/one.md", "**/AGENTS.md"];
        settings["claudeMdExcludes"] = json!([excluded[random.usize(..excluded.len())]]);
    }
    if random.u8(..4) == 0 {
        let name = match random.u8(..6) {
            0 => "CLAUDE_CODE_DISABLE_CLAUDE_MDS",
            1 => "CLAUDE_CODE_DISABLE_BUNDLED_SKILLS",
            _ => "CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD",
        };
        let value = ["1", "true", "0"][random.usize(..3)];
        settings["env"] = json!({ name: value });
    }
    if random.u8(..6) == 0 {
        let value = ["off", "name-only", "user-invocable-only"][random.usize(..3)];
        settings["skillOverrides"] = json!({ "alpha": value });
    }
    settings
}

fn codex_settings(random: &mut Rng) -> String {
    let mut settings = Vec::new();
    if random.u8(..3) == 0 {
        let names = "project_doc_fallback_filenames = [\"OTHER.md\", \"docs/NOTES.md\"]\n";
        settings.push(names.to_owned());
    }
    if random.u8(..4) == 0 {
        settings.push(format!("project_doc_max_bytes = {}\n", random.u32(..600)));
    }
    if random.u8(..8) == 0 {
        settings.push("project_root_markers = [\"docs\"]\n".to_owned());
    }
    settings.concat()
}

fn gemini_settings(random: &mut Rng) -> Value {
    let mut context = json!({});
    match random.u8(..5) {
        0 => context["fileName"] = json!("AGENTS.md"),
        1 => context["fileName"] = json!(["docs/CONTEXT.md", "AGENTS.md"]),
        _ => {}
    }
    if random.u8(..4) == 0 {
        context["importFormat"] = json!(["flat", "tree"][random.usize(..2)]);
    }
    if random.u8(..8) == 0 {
        context["memoryBoundaryMarkers"] = json!(["docs"]);
    }
    let mut settings = json!({ "context": context });
    if random.u8(..5) == 0 {
        settings["skills"] = json!({"disabled": ["ALPHA"]});
    }
    settings
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let below = |path: &Path| path.strip_prefix(self.path("")).map(Path::to_owned);
        writeln!(f, "  in {}", below(&self.cwd).unwrap_or_default().display())?;
        writeln!(f, "  with {:?} {:?}", self.arguments, self.variables)?;
        self.steps.iter().try_for_each(|step| writeln!(f, "  {step}"))
    }
}
