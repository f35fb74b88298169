//! One call, message by message, controlled by keys or by a script.

mod conversation;
mod editor;
mod keys;
mod message_log;
mod script;

use std::io;

use netrig_sip_net::StreamError;

pub use self::conversation::{Conversation, ManualCallEnd, ManualCallOrder};
pub use self::message_log::ManualCallDocument;
pub use self::script::{AwaitedResponse, CourseAct, CourseError, parse_course, usual_course};

/// Why a call cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum ManualCallError {
    /// The connection to the server has ended.
    #[error("the way to the server: {0}")]
    Line(#[from] StreamError),
    /// The terminal does not deliver keys one by one.
    #[error("the terminal's keys: {0}")]
    Keys(io::Error),
    /// The messages cannot be shown.
    #[error("cannot write to the output: {0}")]
    Output(io::Error),
}
