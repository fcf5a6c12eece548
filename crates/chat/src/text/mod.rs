//! Text for a terminal: printable characters and line wrapping.

mod flow;
mod printable;
mod wrap;

pub(crate) use flow::Flow;
pub use printable::{is_dangerous, printable};
pub(crate) use printable::{printable_line, shown};
pub(crate) use wrap::{clip, wrap};
