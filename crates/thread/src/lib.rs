//! What a model is sent: from a directory, a configuration and a history to one request, to the
//! byte.

pub mod files;
pub mod project_doc;
