//! Tests of the crate by its public interface.

mod any_message;
mod hostile;
mod index;
mod layers;
mod load;
mod message_corpus;
mod quotations;
mod scan;
mod template;
mod torture;
