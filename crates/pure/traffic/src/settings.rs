//! The part of an experiment file about an application.

use netrig_sip::settings::LoadSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::application_settings::ApplicationSettings;
use crate::{Bulk, Cbr, File, Ftp, OnOff, Ping, Poisson, Segments, Trace, Video, Voice, Web};

/// Declares the applications that a file can name. The settings of each are a type that implements
/// [`ApplicationSettings`].
macro_rules! applications {
    ($($(#[doc = $doc:literal])+ $kind:ident($settings:ty);)+) => {
        /// An application of a flow, by its `kind`.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case", deny_unknown_fields)]
        #[schemars(extend("x-tag" = "kind"))]
        pub enum Settings {
            $($(#[doc = $doc])+ $kind($settings),)+
        }

        impl Settings {
            /// Whether it sends datagrams, so that a flow's `transport` must be UDP.
            pub fn sends_datagrams(&self) -> bool {
                self.datagram().is_some()
            }

            /// Whether it can use both datagrams and TCP connections. The flow's `transport` selects one of them.
            pub const fn goes_over_either(&self) -> bool {
                self.sip().is_some()
            }

            /// The settings of the SIP users, if the application is `sip`.
            pub const fn sip(&self) -> Option<&LoadSettings> {
                match self {
                    Self::Sip(load) => Some(load),
                    _ => None,
                }
            }
        }

        /// Gives access to the properties of an application of any kind.
        impl std::ops::Deref for Settings {
            type Target = dyn ApplicationSettings;

            fn deref(&self) -> &Self::Target {
                match self { $(Self::$kind(settings) => settings,)+ }
            }
        }
    };
}

applications! {
    /// As much data as the transport takes, up to a size or a time, over one connection.
    Bulk(Bulk);
    /// Web objects, pushed or requested over one connection.
    Web(Web);
    /// Datagrams as a Poisson process.
    Poisson(Poisson);
    /// Datagrams at a constant rate.
    Cbr(Cbr);
    /// Datagrams at a constant rate during on periods, none during off periods.
    OnOff(OnOff);
    /// The datagrams of a trace.
    Trace(Trace);
    /// Datagrams that the other end answers.
    Ping(Ping);
    /// Files, one after the other, each over its own connection.
    File(File);
    /// One file by FTP.
    Ftp(Ftp);
    /// Video in segments, fetched ahead of a player over one connection.
    Segments(Segments);
    /// One direction of a telephone call, over RTP.
    Voice(Voice);
    /// Live video over RTP.
    Video(Video);
    /// Users of SIP and their server.
    Sip(Box<LoadSettings>);
}
