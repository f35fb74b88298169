//! Congestion control: changes of the window after acknowledgements and congestion signals.
//!
//! Each algorithm has its own file and implements [`CongestionControl`], which changes a [`CongestionWindow`].
//! [`super::recovery`] decides which segments are lost.

mod control;
mod counted;
mod cubic;
mod hystart;
mod reno;
mod scalable;
mod table;
mod tahoe;

use netrig_core::Instant;

pub(crate) use self::control::{Acked, CongestionControl, CongestionWindow};
pub use self::table::Congestion;
use self::table::algorithms;
use super::config::Config;

/// Declares the enum with a variant for each modelled algorithm of the table, and dispatches the trait's calls to it.
macro_rules! dispatch {
    (
        $($(#[doc = $doc:literal])+ $name:ident => $algorithm:ty;)+
        kernels: $($(#[doc = $kernel_doc:literal])+ $kernel:ident;)+
    ) => {
        /// The state of one algorithm.
        #[derive(Clone, Debug)]
        pub(crate) enum Algorithm {
            $($name(Box<$algorithm>),)+
        }

        impl Algorithm {
            pub fn new(config: &Config) -> Self {
                match config.congestion {
                    $(Congestion::$name => Self::$name(Box::new(<$algorithm>::new(config))),)+
                    // Callers check `MODELLED` before they create an algorithm. If one does not, the algorithm of the
                    // RFC is used.
                    $(Congestion::$kernel => Self::Reno(Box::new(reno::Reno::new(config))),)+
                }
            }
        }

        impl CongestionControl for Algorithm {
            fn on_ack(&mut self, window: &mut CongestionWindow, acked: &Acked) {
                match self { $(Self::$name(algorithm) => algorithm.on_ack(window, acked),)+ }
            }

            fn on_congestion(&mut self, window: &CongestionWindow, base: u64) -> u64 {
                match self { $(Self::$name(algorithm) => algorithm.on_congestion(window, base),)+ }
            }

            fn on_timeout(&mut self) {
                match self { $(Self::$name(algorithm) => algorithm.on_timeout(),)+ }
            }

            fn on_unused(&mut self, now: Instant) {
                match self { $(Self::$name(algorithm) => algorithm.on_unused(now),)+ }
            }

            fn on_resume(&mut self, now: Instant, last_sent: Instant) {
                match self { $(Self::$name(algorithm) => algorithm.on_resume(now, last_sent),)+ }
            }

            fn on_undo(&mut self) {
                match self { $(Self::$name(algorithm) => algorithm.on_undo(),)+ }
            }

            fn recovers(&self) -> bool {
                match self { $(Self::$name(algorithm) => algorithm.recovers(),)+ }
            }
        }
    };
}

algorithms!(dispatch);
