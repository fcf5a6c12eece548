//! Text for a terminal: printable characters, line wrapping and Markdown.

mod flow;
mod highlight;
mod markdown;
mod printable;
mod styled;
mod wrap;

pub(crate) use flow::Flow;
pub(crate) use markdown::render as render_markdown;
pub use printable::{is_dangerous, printable};
pub(crate) use printable::{printable_line, shown};
pub(crate) use styled::{Face, StyledText, Tint};
pub(crate) use wrap::{clip, wrap};
