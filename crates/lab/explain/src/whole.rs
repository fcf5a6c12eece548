//! What agents share that load files whole, and list skills by the fields of their front matter.

use std::path::{Path, PathBuf};

use convoke_files::{EntryKind, Files};

use crate::diagnostics;
use crate::front_matter::{FrontMatter, Split, Yaml, split};
use crate::report::{AgentReport, LoadReason, Loaded, Rule};
use crate::skills::{
    BudgetUnit, BuiltinSkill, FILE_NAME, OmittedSkill, Skill, SkillRule, SkillSource, SkillsBudget,
    read,
};
use crate::text::looks_like_utf16;

/// The bytes that are read of a file: more than any request has.
const MAX_BYTES: u64 = 16 << 20;
/// The depth of skills below their place.
const SKILL_DEPTH: usize = 6;

/// Loads a whole file, if it is there. Returns whether it is loaded.
pub fn load(files: &dyn Files, path: &Path, why: LoadReason, report: &mut AgentReport) -> bool {
    if files.entry_kind(path).is_err() {
        return false;
    }
    let head = match files.read_head(path, MAX_BYTES) {
        Ok(head) => head,
        Err(error) => {
            let rule = report.miss(path, &error);
            report.ignore(path, rule);
            return false;
        }
    };
    if looks_like_utf16(&head.bytes) {
        let message = format!("{} is UTF-16 and arrives as garbage", path.display());
        report.warn(diagnostics::FILE_UTF16, path, message);
    }
    let text = String::from_utf8_lossy(&head.bytes).into_owned();
    if text.trim().is_empty() {
        report.ignore(path, Rule::Blank);
        return false;
    }
    report.unignore(path);
    report.loaded.push(Loaded {
        path: path.to_owned(),
        bytes: head.size,
        bytes_loaded: text.len() as u64,
        whole: head.size == head.bytes.len() as u64,
        why,
        text,
        real_path: files.canonicalize(path).unwrap_or_else(|_| path.to_owned()),
        depth: 0,
        is_pasted: false,
    });
    true
}

/// A skill whose front matter has no description.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undescribed {
    /// It is not listed.
    Omitted,
    /// The first line of its text is listed.
    FirstLine,
}

/// A list of skills, of which the first of each name counts.
#[derive(Debug, Default)]
pub struct SkillList {
    /// The skills that are listed.
    pub skills: Vec<Skill>,
    omitted: Vec<OmittedSkill>,
}

impl SkillList {
    /// Adds a skill inside the program.
    pub fn add_builtin(&mut self, skill: &BuiltinSkill) {
        self.skills.push(Skill::builtin(skill, skill.bytes));
    }

    /// Adds the skills below a place, by name.
    pub fn search(
        &mut self,
        files: &dyn Files,
        place: &Path,
        source: SkillSource,
        undescribed: Undescribed,
    ) {
        self.search_below(files, place, source, undescribed, SKILL_DEPTH);
    }

    fn search_below(
        &mut self,
        files: &dyn Files,
        directory: &Path,
        source: SkillSource,
        undescribed: Undescribed,
        depth: usize,
    ) {
        for (name, kind) in files.entries(directory).unwrap_or_default() {
            let path = directory.join(&name);
            match kind {
                EntryKind::Directory | EntryKind::Symlink
                    if depth > 0 && is_directory(files, &path) =>
                {
                    self.search_below(files, &path, source, undescribed, depth - 1);
                }
                EntryKind::File | EntryKind::Symlink
                    if name == FILE_NAME && depth < SKILL_DEPTH =>
                {
                    self.take(files, path, source, undescribed);
                }
                _ => {}
            }
        }
    }

    fn take(
        &mut self,
        files: &dyn Files,
        path: PathBuf,
        source: SkillSource,
        undescribed: Undescribed,
    ) {
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
        let folder = folder.to_string_lossy().into_owned();
        let (name, description) = match read(files, &path) {
            Ok(head) => fields(&head.text, undescribed),
            Err(error) => {
                let rule = SkillRule::Invalid(error.to_string());
                return self.omitted.push(OmittedSkill { name: Some(folder), path, rule });
            }
        };
        let name = name.unwrap_or(folder);
        let Some(description) = description else {
            let rule = SkillRule::Invalid("it has no `description`".to_owned());
            return self.omitted.push(OmittedSkill { name: Some(name), path, rule });
        };
        if let Some(first) = self.skills.iter().find(|it| it.name == name) {
            let rule = SkillRule::Shadowed(first.path.clone());
            return self.omitted.push(OmittedSkill { name: Some(name), path, rule });
        }
        let bytes = description.len() as u64;
        self.skills.push(Skill {
            name,
            description_bytes: bytes,
            description_bytes_loaded: bytes,
            whole: true,
            source,
            real_path: Some(files.canonicalize(&path).unwrap_or_else(|_| path.clone())),
            path: Some(path),
            is_name_only: false,
            text: Some(description),
        });
    }

    /// Adds the list to a report.
    pub fn finish(self, report: &mut AgentReport) {
        let used = self.skills.iter().map(|it| it.name.len() as u64 + it.description_bytes_loaded);
        let used = used.sum();
        report.skills_budget = Some(SkillsBudget { limit: None, unit: BudgetUnit::Bytes, used });
        report.skills = self.skills;
        report.skills_omitted = self.omitted;
    }
}

fn is_directory(files: &dyn Files, path: &Path) -> bool {
    matches!(files.kind(path), Ok(EntryKind::Directory))
}

/// Returns the name and the description that the head of a file states.
fn fields(text: &str, undescribed: Undescribed) -> (Option<String>, Option<String>) {
    let Split { front, body, .. } = split(text);
    let front = front.map(FrontMatter::read);
    let field = |name: &str| match front.as_ref()?.field(name)? {
        Yaml::Text(text) | Yaml::Scalar(text) => Some(text.trim().to_owned()),
        _ => None,
    };
    let is_there = |text: &String| !text.is_empty();
    let first_line = || {
        let line = body.lines().map(str::trim).find(|line| !line.is_empty());
        line.filter(|_| undescribed == Undescribed::FirstLine).map(str::to_owned)
    };
    let description = field("description").filter(is_there).or_else(first_line);
    (field("name").filter(is_there), description)
}
