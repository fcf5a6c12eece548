//! Has a change reviewed by agents: prompts with their ledger, strict answers, a verdict that fails closed.
//!
//! ```text
//! change (working tree, base) ──▶ parts (prompts + ledger) ──▶ reviewers ──▶ answers ──▶ checked findings ──▶ verdict
//! ```
//!
//! Nothing of the change can decide about it: the rules of the review and the instructions of the repository are those of the
//! base, every line of the change is quoted in the prompt, and only a whole, well-formed answer of every reviewer to every part is
//! a verdict. The library starts no program: its caller asks the reviewers.
//!
//! # Modules
//!
//! - `change` reads what differs from a commit; `hunk` are its pieces.
//! - `part` writes the prompts of a review within a budget, the change split by file.
//! - `answer` parses what a reviewer says; `finding` checks findings against the change; `panel` has reviewers vote on each
//!   other's findings; `verdict` puts answers together.

pub mod answer;
pub mod change;
pub mod finding;
pub mod hunk;
pub mod panel;
pub mod part;
pub mod verdict;

pub use answer::{Answer, AnswerError, Opinion, Severity};
pub use change::{Change, ChangeError, FileChange};
pub use finding::{CheckedFinding, Finding, Problem};
pub use part::{LeftOut, Part, Parts, Sources};
pub use verdict::{Verdict, verdict};
