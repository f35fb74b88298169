//! Tests of the crate through its public interface.
#![allow(clippy::unwrap_used, reason = "what cannot go on has failed")]

mod access;
mod closed_form;
mod codel;
mod common;
mod events;
mod expedited;
mod fq_codel;
mod impairments;
mod meters;
mod properties;
mod queueing;
mod red;
mod schedulers;
mod shaping;
mod wifi;
