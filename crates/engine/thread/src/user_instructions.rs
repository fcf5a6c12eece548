//! The user instructions: the user's own document, the project's, the list of skills, and the note on nested
//! documents, in one text in which every byte has a source.

use std::path::Path;

use convoke_core::diagnostic::Diagnostic;
use convoke_core::ledger::{Rule, Source};
use convoke_core::{Fragment, SourcedText, TextWriter};

use crate::history::Section;
use crate::project_doc::{DOCUMENT_SEPARATOR, Document, ProjectDocs, UserDoc};
use convoke_core::diagnostics;
use convoke_files::Files;

const PROJECT_SEPARATOR: &str = "\n\n--- project-doc ---\n\n";
const SECTION_SEPARATOR: &str = "\n\n";
const CLOSE: &str = "\n</INSTRUCTIONS>";

/// The user instructions of a thread, read once when it starts.
#[derive(Debug, Clone)]
pub struct UserInstructions {
    text: SourcedText<'static>,
}

impl UserInstructions {
    /// Joins the parts; `None` if there are none.
    pub fn assemble(
        user_doc: &UserDoc,
        project_docs: &ProjectDocs,
        skills: Option<String>,
        child_agents: Option<&str>,
    ) -> Option<Self> {
        let mut out = TextWriter::new(SECTION);
        if let Some(document) = &user_doc.document {
            write_document(document, &mut out);
        }
        for (index, document) in project_docs.documents.iter().enumerate() {
            let separator = match index {
                0 => PROJECT_SEPARATOR,
                _ => DOCUMENT_SEPARATOR,
            };
            separate(separator, &mut out);
            write_document(document, &mut out);
        }
        if let Some(skills) = skills {
            separate(SECTION_SEPARATOR, &mut out);
            out.fragment(Fragment::new(skills, Source::setting("skills")));
        }
        if let Some(note) = child_agents {
            separate(SECTION_SEPARATOR, &mut out);
            let source = Source::setting("features.child_agents_md");
            out.fragment(Fragment::new(note.to_owned(), source));
        }
        (!out.text().is_empty()).then(|| Self { text: out.finish() })
    }

    /// Returns the text without its wrapper.
    pub fn text(&self) -> &str {
        self.text.text()
    }

    /// Writes the message for a working directory.
    pub fn render(&self, cwd: &Path) -> SourcedText<'static> {
        let mut out = TextWriter::new(SECTION);
        let open = format!("# AGENTS.md instructions for {}\n\n<INSTRUCTIONS>\n", cwd.display());
        out.frame("wrapper", &open);
        out.append(&self.text);
        out.frame("wrapper", CLOSE);
        out.finish()
    }
}

const SECTION: &str = Section::UserInstructions.name();

fn write_document(document: &Document, out: &mut TextWriter<'static>) {
    let source = Source::file(document.path.display().to_string());
    let fragment = Fragment::new(document.text.clone(), source);
    match document.size - document.loaded {
        0 => out.fragment(fragment),
        cut => {
            let (needed, available) = (document.size, document.loaded);
            out.cut_fragment(fragment, cut, Rule::EndCut { needed, available });
        }
    }
}

fn separate(separator: &str, out: &mut TextWriter<'static>) {
    if !out.text().is_empty() {
        out.frame("separator", separator);
    }
}

/// Reports documents that contain the closing tag of their wrapper.
pub fn check_wrapper<'a>(
    documents: impl IntoIterator<Item = &'a Document>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    for document in documents {
        if document.text.contains(CLOSE.trim_start()) {
            let path = document.path.display();
            let message = format!("{path} contains </INSTRUCTIONS>, which ends its own wrapper");
            let closed = Diagnostic::new(diagnostics::TEXT_CLOSES_WRAPPER, message);
            diagnostics.push(closed.at_path(path.to_string()));
        }
    }
}

/// Returns whether a text is user instructions, in the current form or an earlier one.
pub(crate) fn is_user_instructions(text: &str) -> bool {
    text.starts_with("# AGENTS.md instructions for ") || text.starts_with("<user_instructions>")
}

/// Reads the sources of the user instructions.
pub(crate) fn read(
    files: &dyn Files,
    codex_home: &Path,
    settings: &crate::project_doc::Settings<'_>,
    skills: Option<String>,
    child_agents: Option<&str>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<UserInstructions> {
    let mut user_doc = crate::project_doc::user_doc(files, codex_home, settings.rules);
    let mut project_docs = crate::project_doc::discover(files, settings);
    diagnostics.append(&mut user_doc.diagnostics);
    diagnostics.append(&mut project_docs.diagnostics);
    check_wrapper(user_doc.document.iter().chain(&project_docs.documents), diagnostics);
    UserInstructions::assemble(&user_doc, &project_docs, skills, child_agents)
}
