//! One call, message by message: by the keys of a person, or by a script.

mod conversation;
mod editor;
mod keys;
mod ladder;
mod raw_keys;
mod script;

use std::io;

use netrig_sip_net::StreamError;

pub use self::conversation::{Conversation, Ended};
pub use self::keys::talk;
pub use self::ladder::{Entry, Ladder};
pub use self::script::{Act, CourseError, parse, usual};

/// A call cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ManualCallError {
    /// The connection to the server has ended.
    #[error("the way to the server: {0}")]
    Line(#[from] StreamError),
    /// The terminal does not give its keys one by one.
    #[error("the terminal's keys: {0}")]
    Keys(io::Error),
    /// The messages cannot be shown.
    #[error("cannot write to the output: {0}")]
    Output(io::Error),
}
