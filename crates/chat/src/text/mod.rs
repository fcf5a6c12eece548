//! Text for a terminal: what may be shown of it, and how it breaks into lines.

mod flow;
mod printable;
mod wrap;

pub(crate) use flow::Flow;
pub use printable::{is_dangerous, printable};
pub(crate) use printable::{printable_line, shown};
pub(crate) use wrap::{clip, wrap};
