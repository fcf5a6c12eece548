//! The user instructions: the user's own document, the project's, the list of skills and the note on
//! nested documents, in one text of which every byte has a source.

use std::path::{Path, PathBuf};

use convoke_core::diagnostic::Diagnostic;

use crate::project_doc::{DOCUMENT_SEPARATOR, Document, ProjectDocs, UserDoc};
use convoke_core::diagnostics;
use convoke_files::Files;

const PROJECT_SEPARATOR: &str = "\n\n--- project-doc ---\n\n";
const SECTION_SEPARATOR: &str = "\n\n";
const CLOSE: &str = "\n</INSTRUCTIONS>";

/// Where a piece of the user instructions came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PieceSource {
    /// A document.
    File(PathBuf),
    /// The list of skills.
    Skills,
    /// The note on nested documents.
    ChildAgents,
    /// What stands around and between the others.
    Frame,
}

/// A run of bytes with one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Where it came from.
    pub source: PieceSource,
    /// The bytes of it that are sent.
    pub kept: u64,
    /// The bytes of it that are not.
    pub cut: u64,
}

/// The user instructions of a thread, found once when it starts.
#[derive(Debug, Clone, Default)]
pub struct UserInstructions {
    text: String,
    pieces: Vec<Piece>,
}

impl UserInstructions {
    /// Puts the parts together; `None` when there are none.
    pub fn assemble(
        user_doc: &UserDoc,
        project_docs: &ProjectDocs,
        skills: Option<String>,
        child_agents: Option<&str>,
    ) -> Option<Self> {
        let mut whole = Self::default();
        if let Some(document) = &user_doc.document {
            whole.document(document);
        }
        for (index, document) in project_docs.documents.iter().enumerate() {
            let separator = match index {
                0 => PROJECT_SEPARATOR,
                _ => DOCUMENT_SEPARATOR,
            };
            whole.separate(separator);
            whole.document(document);
        }
        if let Some(skills) = skills {
            whole.separate(SECTION_SEPARATOR);
            whole.push(PieceSource::Skills, &skills, 0);
        }
        if let Some(note) = child_agents {
            whole.separate(SECTION_SEPARATOR);
            whole.push(PieceSource::ChildAgents, note, 0);
        }
        (!whole.text.is_empty()).then_some(whole)
    }

    /// Returns the text without its wrapper.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Writes the message for a working directory, with the pieces that it is made of.
    pub fn render(&self, cwd: &Path) -> (String, Vec<Piece>) {
        let open = format!("# AGENTS.md instructions for {}\n\n<INSTRUCTIONS>\n", cwd.display());
        let frame = |bytes: usize| Piece { source: PieceSource::Frame, kept: bytes as u64, cut: 0 };
        let mut pieces = vec![frame(open.len())];
        pieces.extend(self.pieces.iter().cloned());
        pieces.push(frame(CLOSE.len()));
        (format!("{open}{}{CLOSE}", self.text), pieces)
    }

    fn document(&mut self, document: &Document) {
        let source = PieceSource::File(document.path.clone());
        self.push(source, &document.text, document.size - document.loaded);
    }

    fn push(&mut self, source: PieceSource, text: &str, cut: u64) {
        self.text.push_str(text);
        let kept = text.len() as u64;
        self.pieces.push(Piece { source, kept, cut });
    }

    fn separate(&mut self, separator: &str) {
        if !self.text.is_empty() {
            self.push(PieceSource::Frame, separator, 0);
        }
    }
}

/// Reports documents that contain the closing tag of the wrapper that they are sent in.
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

/// Returns whether a text is user instructions, in the present form or an earlier one.
pub(crate) fn is_user_instructions(text: &str) -> bool {
    text.starts_with("# AGENTS.md instructions for ") || text.starts_with("<user_instructions>")
}

/// Reads everything that user instructions are made of.
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
