//! The list of skills that Codex sends: 0.98 sends every description whole, 0.166 has a budget.

use std::path::Path;

use convoke_codex::project_doc::Rules;
use convoke_codex::skills::{
    FoundSkill, MAX_DESCRIPTION, SYSTEM_FOLDER, Scope, Search, Switches, find,
};
use convoke_core::ledger::estimate_tokens;
use convoke_files::{EntryKind, FileKind, Files};
use toml::{Table, Value};

use super::Start;
use convoke_explain::AgentReport;
use convoke_explain::Session;
use convoke_explain::diagnostics;
use convoke_explain::skills::{
    BudgetUnit, BuiltinSkill, FILE_NAME, OmittedSkill, Skill, SkillRule, SkillSource, SkillsBudget,
    loaded_bytes,
};

/// The skills that come with Codex 0.98.
const BUILTIN_0_98: [BuiltinSkill; 2] =
    [BuiltinSkill::ascii("skill-creator", 225), BuiltinSkill::ascii("skill-installer", 225)];

/// The skills that come with Codex 0.166.
const BUILTIN_0_166: [BuiltinSkill; 4] = [
    BuiltinSkill::ascii("imagegen", 570),
    BuiltinSkill { name: "openai-docs", bytes: 463, three_bytes: &[135, 220], line_breaks: &[] },
    BuiltinSkill::ascii("skill-creator", 106),
    BuiltinSkill::ascii("skill-installer", 225),
];

/// The file beside installed skills that names their version, and its content by the version that wrote it.
const MARKER: &str = ".codex-system-skills.marker";
const MARKERS: [(Rules, &str); 2] =
    [(Rules::V0_98, "c177538279c21315"), (Rules::V0_166, "a49d0ab9dc3eb676")];

/// Returns whether the installed skills belong to the other version: Codex replaces them with its own when it starts.
fn is_of_other_version(files: &dyn Files, system: &Path, rules: Rules) -> bool {
    let text = files.read_text(&system.join(MARKER), FileKind::Configuration).unwrap_or_default();
    MARKERS.iter().any(|(of, marker)| *of != rules && text.trim() == *marker)
}

/// The windows of models that differ from the default, in tokens.
const WINDOWS: [(&str, u64); 1] = [("gpt-6.1-terra", 500_000)];
const DEFAULT_WINDOW: u64 = 272_000;

/// The maximum number of tokens that `skills.max_context_tokens` gives.
const MAX_TOKENS: u64 = 10_000;

/// The settings of skills.
#[derive(Debug, Default)]
pub(super) struct SkillSettings {
    pub switches: Switches,
    /// `skills.include_instructions`.
    is_listed: bool,
    /// `skills.bundled.enabled`.
    has_builtin: bool,
    /// The budget in tokens.
    budget: u64,
}

impl SkillSettings {
    /// Reads the merged configuration; `model` is the one that an argument names.
    pub(super) fn read(merged: &Table, switches: Switches, model: Option<&str>) -> Self {
        let skills = merged.get("skills");
        let truth = |path: &[&str]| {
            let found = path.iter().try_fold(skills?, |value, key| value.get(*key));
            found.and_then(Value::as_bool)
        };
        let number = |value: Option<&Value>| {
            value.and_then(Value::as_integer).and_then(|it| u64::try_from(it).ok())
        };
        let model = model.or_else(|| merged.get("model")?.as_str());
        let known = WINDOWS.iter().find(|(name, _)| Some(*name) == model);
        let window = number(merged.get("model_context_window"));
        let window = window.unwrap_or_else(|| known.map_or(DEFAULT_WINDOW, |(_, window)| *window));
        let given = number(skills.and_then(|it| it.get("max_context_tokens")));
        Self {
            switches,
            is_listed: truth(&["include_instructions"]).unwrap_or(true),
            has_builtin: truth(&["bundled", "enabled"]).unwrap_or(true),
            budget: given.map_or(window / 50, |given| given.min(MAX_TOKENS)),
        }
    }
}

/// Finds the skills that Codex lists.
pub(super) fn explain(
    files: &dyn Files,
    session: &Session,
    start: &Start,
    report: &mut AgentReport,
) {
    let Start { rules, cwd, codex_home, config } = start;
    let (rules, settings) = (*rules, &config.skills);
    let system = codex_home.join("skills").join(SYSTEM_FOLDER);
    let is_installed = matches!(files.kind(&system), Ok(EntryKind::Directory))
        && !is_of_other_version(files, &system, rules);
    let machine = session.etc.join("codex");
    let search = Search {
        rules,
        cwd,
        codex_home,
        home: Some(&session.home),
        machine: &machine,
        root_markers: &config.root_markers,
        has_system: is_installed && settings.has_builtin,
    };
    let found = find(files, &search);
    for root in &found.limited {
        let message = format!("only a part of the folders below {} is searched", root.display());
        report.warn(convoke_codex::diagnostics::SKILLS_LIMITED, root, message);
    }
    let mut omitted: Vec<OmittedSkill> = Vec::new();
    for rejected in found.rejected {
        let name = folder_name(&rejected.path);
        let rule = SkillRule::Invalid(rejected.reason);
        omitted.push(OmittedSkill { name, path: rejected.path, rule });
    }
    let switches = settings.switches.clone().without_links(files);
    let mut lines: Vec<Line> = Vec::new();
    for skill in found.skills {
        let is_off = switches.is_off(&skill.real_path)
            || rules == Rules::V0_166 && switches.is_name_off(&skill.name);
        let rule = match () {
            () if !settings.is_listed => off("skills.include_instructions = false"),
            () if is_off => off("[[skills.config]]"),
            () if skill.is_hidden => SkillRule::Hidden("policy.allow_implicit_invocation"),
            () => {
                lines.push(Line::new(skill));
                continue;
            }
        };
        omitted.push(OmittedSkill { name: Some(skill.name), path: skill.path, rule });
    }
    if settings.has_builtin && settings.is_listed && !is_installed {
        let builtin: &[BuiltinSkill] =
            if rules == Rules::V0_98 { &BUILTIN_0_98 } else { &BUILTIN_0_166 };
        let builtin = builtin.iter().filter(|skill| !switches.is_name_off(skill.name));
        lines.extend(builtin.map(|skill| Line::builtin(*skill, &system)));
    }
    lines.sort_by(|a, b| a.key(rules).cmp(&b.key(rules)));

    let roots = Search { has_system: true, ..search }.roots(files);
    let used = match rules {
        Rules::V0_98 => lines.iter().map(|line| line.bytes(line.whole(), None)).sum(),
        Rules::V0_166 => {
            let aliases: Vec<_> = roots
                .iter()
                .map(|(root, _)| root.as_path())
                .filter(|root| has_line(&lines, root))
                .collect();
            fit(&mut lines, &aliases, settings.budget, &mut omitted)
        }
    };
    report.skills_budget = Some(match rules {
        Rules::V0_98 => SkillsBudget { limit: None, unit: BudgetUnit::Bytes, used },
        Rules::V0_166 => {
            SkillsBudget { limit: Some(settings.budget), unit: BudgetUnit::Tokens, used }
        }
    });
    report.skills = lines.into_iter().map(Line::skill).collect();
    report.skills_omitted = omitted;
    if !settings.is_listed {
        let message = "no skill is listed: skills.include_instructions is false";
        report.warn(diagnostics::SKILLS_SWITCHED_OFF, &codex_home.join("config.toml"), message);
    }
}

fn has_line(lines: &[Line], root: &Path) -> bool {
    lines.iter().any(|line| line.skill.root == *root)
}

fn off(by: &str) -> SkillRule {
    SkillRule::SwitchedOff(by.to_owned())
}

fn folder_name(path: &Path) -> Option<String> {
    Some(path.parent()?.file_name()?.to_string_lossy().into_owned())
}

/// A line of the list.
struct Line {
    skill: FoundSkill,
    builtin: Option<BuiltinSkill>,
    /// The description as far as it is sent; the mark of a long one included.
    text: String,
    /// Whether the text ends with a mark in place of what follows.
    is_marked: bool,
    /// The number of its bytes that are sent.
    kept: usize,
}

impl Line {
    fn new(skill: FoundSkill) -> Self {
        let mut text = skill.description.clone();
        let is_marked = text.len() > MAX_DESCRIPTION && text.chars().nth(MAX_DESCRIPTION).is_some();
        if is_marked {
            let end = text.char_indices().nth(MAX_DESCRIPTION - MARK.len());
            text.truncate(end.map_or(0, |(end, _)| end));
            text.push_str(MARK);
        }
        Self { kept: text.len(), skill, builtin: None, text, is_marked }
    }

    /// A skill inside the program, whose text is known by its figures alone.
    fn builtin(skill: BuiltinSkill, system: &Path) -> Self {
        let is_wide = |place: u64| skill.three_bytes.contains(&place);
        let text: String =
            (0..skill.characters()).map(|it| if is_wide(it) { '—' } else { 'x' }).collect();
        let path = system.join(skill.name).join(FILE_NAME);
        let description = text.clone();
        let found = FoundSkill {
            name: skill.name.to_owned(),
            stated: description.clone(),
            description,
            real_path: path.clone(),
            path,
            root: system.to_owned(),
            scope: Scope::System,
            is_hidden: false,
        };
        Self { kept: text.len(), skill: found, builtin: Some(skill), text, is_marked: false }
    }

    /// The order of the list.
    fn key(&self, rules: Rules) -> (usize, &str, &Path) {
        let place = match (rules, self.skill.scope) {
            (Rules::V0_98, scope) => scope as usize,
            (Rules::V0_166, Scope::System) => 0,
            (Rules::V0_166, Scope::Admin) => 1,
            (Rules::V0_166, Scope::Repo) => 2,
            (Rules::V0_166, Scope::User) => 3,
        };
        (place, &self.skill.name, &self.skill.path)
    }

    fn whole(&self) -> u64 {
        self.text.len() as u64
    }

    /// The bytes of the line with so many bytes of description; the path is short below an alias.
    fn bytes(&self, description: u64, alias: Option<usize>) -> u64 {
        with_description(self.frame(alias), description)
    }

    /// The bytes of the line without a description.
    fn frame(&self, alias: Option<usize>) -> u64 {
        let path = match alias {
            Some(alias) => {
                let below =
                    self.skill.path.strip_prefix(&self.skill.root).unwrap_or(&self.skill.path);
                format!("r{alias}/{}", below.display()).len()
            }
            None => self.skill.path.as_os_str().len(),
        };
        let frame = "- ".len() + self.skill.name.len() + ":".len() + " (file: )\n".len() + path;
        frame as u64
    }

    fn skill(self) -> Skill {
        let kept = &self.text[..self.kept];
        let unmarked = match (self.is_marked, self.kept == self.text.len()) {
            (true, true) => &kept[..kept.len() - MARK.len()],
            _ => kept,
        };
        let text = self.builtin.is_none().then(|| kept.to_owned());
        let stated = convoke_core::whitespace::trim(&self.skill.stated);
        let description_bytes = stated.len() as u64;
        let description_bytes_loaded = loaded_bytes(stated, unmarked);
        Skill {
            source: match self.skill.scope {
                Scope::System => SkillSource::Builtin,
                Scope::Admin => SkillSource::Managed,
                Scope::User => SkillSource::User,
                Scope::Repo => SkillSource::Project,
            },
            whole: description_bytes == description_bytes_loaded,
            description_bytes: self.builtin.map_or(description_bytes, |it| it.bytes),
            description_bytes_loaded,
            name: self.skill.name,
            path: Some(self.skill.path),
            real_path: Some(self.skill.real_path),
            is_name_only: false,
            text,
        }
    }
}

/// The bytes of a line with a description of so many bytes.
fn with_description(frame: u64, description: u64) -> u64 {
    let space = u64::from(description > 0);
    frame + space + description
}

/// The bytes of the table of roots that the budget does not pay: the text without a table is so much longer.
const FREE_TABLE_BYTES: u64 = 142;

/// The tokens that the table of roots takes from the budget.
fn table_tokens(roots: &[&Path]) -> u64 {
    let line = |(index, root): (usize, &&Path)| format!("- `r{index}` = `{}`\n", root.display());
    let bytes: usize = roots.iter().enumerate().map(line).map(|line| line.len()).sum();
    estimate_tokens((bytes as u64).saturating_sub(FREE_TABLE_BYTES))
}

/// The end of a description that was cut.
const MARK: &str = "...";

/// Cuts the descriptions to the budget, in lines with short paths below a table of roots, or with whole paths where more
/// of the list fits then. Returns the tokens that the list takes.
fn fit(
    lines: &mut Vec<Line>,
    roots: &[&Path],
    budget: u64,
    omitted: &mut Vec<OmittedSkill>,
) -> u64 {
    let whole_paths = || FittedLines::new(lines, &[], budget);
    let table = table_tokens(roots);
    let fitted = match budget.checked_sub(table).filter(|rest| *rest > 0) {
        Some(rest) => {
            let mut short = FittedLines::new(lines, roots, rest);
            short.used += table;
            if short.lost(lines) == (0, 0) { short } else { short.or_better(whole_paths(), lines) }
        }
        None => whole_paths(),
    };
    let all = std::mem::take(lines);
    for (mut line, kept) in all.into_iter().zip(fitted.kept) {
        if let Some(kept) = kept {
            line.kept = kept;
            lines.push(line);
        } else {
            let (name, path) = (Some(line.skill.name), line.skill.path);
            omitted.push(OmittedSkill { name, path, rule: SkillRule::OverBudget });
        }
    }
    fitted.used
}

/// The parts of a list that fit a budget.
struct FittedLines {
    /// The bytes of each description; `None` for a line that is left out.
    kept: Vec<Option<usize>>,
    used: u64,
}

impl FittedLines {
    /// Deals out a budget: all names stay, and the characters are fitted out in turn. If not even the names fit, the lines
    /// that do stay without a description.
    fn new(lines: &[Line], roots: &[&Path], budget: u64) -> Self {
        let alias = |line: &Line| roots.iter().position(|root| *root == line.skill.root);
        let frames: Vec<u64> = lines.iter().map(|line| line.frame(alias(line))).collect();
        let cost =
            |frame: u64, description: u64| estimate_tokens(with_description(frame, description));
        let whole = lines.iter().zip(&frames).map(|(line, frame)| cost(*frame, line.whole())).sum();
        if whole <= budget {
            let kept = lines.iter().map(|line| Some(line.text.len())).collect();
            return Self { kept, used: whole };
        }
        let mut taken: Vec<u64> = frames.iter().map(|frame| cost(*frame, 0)).collect();
        let mut used: u64 = taken.iter().sum();
        if used > budget {
            used = 0;
            let fits = |cost: &u64| {
                let fits = used + cost <= budget;
                used += if fits { *cost } else { 0 };
                fits.then_some(0)
            };
            let kept = taken.iter().map(fits).collect();
            return Self { kept, used };
        }
        let mut kept = vec![0; lines.len()];
        let mut open: Vec<usize> = (0..lines.len()).collect();
        while !open.is_empty() {
            open.retain(|index| {
                let Some(next) = lines[*index].text[kept[*index]..].chars().next() else {
                    return false;
                };
                let more = kept[*index] + next.len_utf8();
                let cost = cost(frames[*index], more as u64);
                if used - taken[*index] + cost > budget {
                    return false;
                }
                used = used - taken[*index] + cost;
                (kept[*index], taken[*index]) = (more, cost);
                true
            });
        }
        Self { kept: kept.into_iter().map(Some).collect(), used }
    }

    /// Returns the lines and the characters of descriptions that are left out.
    fn lost(&self, lines: &[Line]) -> (usize, usize) {
        let characters = lines.iter().zip(&self.kept);
        let characters = characters.map(|(line, kept)| line.text[kept.unwrap_or(0)..].chars());
        let left_out = self.kept.iter().filter(|kept| kept.is_none()).count();
        (left_out, characters.map(Iterator::count).sum())
    }

    /// Returns the other one if it leaves out less.
    fn or_better(self, other: Self, lines: &[Line]) -> Self {
        if other.lost(lines) < self.lost(lines) { other } else { self }
    }
}
