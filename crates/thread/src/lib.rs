//! What a model is sent: from a directory, a configuration and a history to one request, to the
//! byte.

pub mod command_rules;
pub mod compaction;
pub mod config;
pub mod environment;
pub mod files;
pub mod history;
pub mod images;
pub mod item;
pub mod model;
pub mod pack;
pub mod permissions;
pub mod personality;
pub mod project_doc;
pub mod prompt;
pub mod record;
pub mod skills;
pub mod thread;
pub mod truncate;
pub mod user_input;
pub mod user_instructions;
