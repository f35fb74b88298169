//! Queue disciplines, one file each. Each implements the trait [`QueueDiscipline`](netrig_core::QueueDiscipline).
//!
//! A discipline decides which packets wait, which are dropped and which leaves next. It does not model the rate or the
//! delay of the line. When it is made, it may read the properties of its line from [`QueueContext`]. A discipline that
//! schedules classes reads the line's [`Class`]es from [`ClassContext`].

mod bands;
pub(crate) mod buffer;
pub mod class;
pub mod class_wfq;
pub mod codel;
mod context;
mod discipline;
pub mod drr;
mod egress;
pub mod fifo;
mod flows;
mod fluid;
pub mod fq_codel;
pub mod port;
pub mod priority;
pub mod red;
pub mod shaped;
pub mod wfq;
pub mod wred;

pub use class::{Class, ClassContext, PerClass, Phb};
pub use context::QueueContext;
pub use discipline::{Discipline, Queue};
pub use egress::Egress;
pub use port::Port;
