//! The part of an experiment file about an application.

use netrig_core::Size;
use netrig_sip::settings::LoadSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::application_settings::ApplicationSettings;
use crate::{
    Bulk, Cbr, Ends, File, FlowContext, Ftp, OnOff, Ping, Poisson, Segments, SettingsError, Trace, Video,
    Voice, Web,
};

/// Declares the applications that a file can name, each by the type of its settings, which implements
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
            /// Creates the two ends of a flow.
            ///
            /// Both draw from the same named streams. The receiving end therefore knows which data is sent, and when,
            /// without messages over the measured network.
            pub fn ends(&self, flow: &FlowContext) -> Ends {
                match self { $(Self::$kind(settings) => settings.ends(flow),)+ }
            }

            /// Mean payload of its datagrams, bytes; `None` if it opens connections.
            pub fn datagram(&self) -> Option<f64> {
                match self { $(Self::$kind(settings) => settings.datagram(),)+ }
            }

            /// Payload of the largest datagram, bytes; the mean if it is unbounded.
            pub fn largest_datagram(&self) -> Option<u64> {
                match self { $(Self::$kind(settings) => settings.largest_datagram(),)+ }
            }

            /// Whether it sends datagrams, so that a flow's `transport` must be UDP.
            pub fn sends_datagrams(&self) -> bool {
                self.datagram().is_some()
            }

            /// Whether it uses datagrams or TCP connections, as the flow's `transport` selects.
            pub const fn goes_over_either(&self) -> bool {
                self.sip().is_some()
            }

            /// The load of SIP, if it is one.
            pub const fn sip(&self) -> Option<&LoadSettings> {
                match self {
                    Self::Sip(load) => Some(load),
                    _ => None,
                }
            }

            /// Mean datagrams per second while it sends, with `headers` bytes of headers each; `None` if it opens
            /// connections or the rate is not defined.
            pub fn pace(&self, headers: u32) -> Option<f64> {
                match self { $(Self::$kind(settings) => settings.pace(headers),)+ }
            }

            /// Whether datagrams are sent only from the flow's first end to its second, which only counts them.
            /// The sender then never waits until the receiver has read a datagram.
            pub fn is_one_way(&self) -> bool {
                match self { $(Self::$kind(settings) => settings.is_one_way(),)+ }
            }

            /// Whether it sends only fill, data without content.
            pub fn sends_fill_only(&self) -> bool {
                match self { $(Self::$kind(settings) => settings.sends_fill_only(),)+ }
            }

            /// Whether most data is sent from the flow's second end to its first, in reply to requests.
            pub fn answers(&self) -> bool {
                match self { $(Self::$kind(settings) => settings.answers(),)+ }
            }

            /// Mean application bytes per second that it offers from the flow's first end to its second; `None` if the
            /// rate depends on the network.
            pub fn offered_load(&self) -> Option<f64> {
                match self { $(Self::$kind(settings) => settings.offered_load(),)+ }
            }

            /// Refuses invalid values.
            ///
            /// # Errors
            /// The key of the first invalid value, and the reason.
            pub fn check(&self) -> Result<(), SettingsError> {
                match self { $(Self::$kind(settings) => settings.check(),)+ }
            }

            /// Whether its receiving end may read slower than data arrives ([`Reads`](crate::Reads)).
            pub fn may_read_slowly(&self) -> bool {
                match self { $(Self::$kind(settings) => settings.may_read_slowly(),)+ }
            }

            /// Streams that it uses, if the connection has as many.
            pub fn streams(&self) -> u16 {
                match self { $(Self::$kind(settings) => settings.streams(),)+ }
            }

            /// Size of the messages that it sends, if the file sets it.
            pub fn message(&self) -> Option<Size> {
                match self { $(Self::$kind(settings) => settings.message(),)+ }
            }

            /// Whether it ends by itself. Otherwise it lasts until its flow stops.
            pub fn has_an_end(&self) -> bool {
                match self { $(Self::$kind(settings) => settings.has_an_end(),)+ }
            }

            /// Whether sizes are drawn from a distribution of infinite variance, so that means over objects are not
            /// reliable.
            pub fn has_infinite_variance(&self) -> bool {
                match self { $(Self::$kind(settings) => settings.has_infinite_variance(),)+ }
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
    /// Datagrams at a constant rate while on, none while off.
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
