//! What an experiment file says of an application.

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
            /// Makes the two ends of a flow.
            ///
            /// Both draw from the same named streams, so the receiving end knows what was meant to be sent, and
            /// when, without being told over the network that it measures.
            pub fn ends(&self, flow: &FlowContext) -> Ends {
                match self { $(Self::$kind(settings) => settings.ends(flow),)+ }
            }

            /// Payload of the datagrams that it sends, bytes, on average; `None` if it opens connections.
            pub fn datagram(&self) -> Option<f64> {
                match self { $(Self::$kind(settings) => settings.datagram(),)+ }
            }

            /// Payload of the largest of them, bytes, or of one on average where nothing bounds them.
            pub fn largest_datagram(&self) -> Option<u64> {
                match self { $(Self::$kind(settings) => settings.largest_datagram(),)+ }
            }

            /// Whether it sends datagrams, so that a flow's `transport` must be UDP.
            pub fn sends_datagrams(&self) -> bool {
                self.datagram().is_some()
            }

            /// Whether it goes over datagrams or connections of TCP, as the flow's `transport` says.
            pub const fn goes_over_either(&self) -> bool {
                self.sip().is_some()
            }

            /// Its users of SIP, if these are what it is.
            pub const fn sip(&self) -> Option<&LoadSettings> {
                match self {
                    Self::Sip(load) => Some(load),
                    _ => None,
                }
            }

            /// Datagrams per second while it sends, on average, where headers add `headers` bytes to a payload; `None`
            /// if it opens connections.
            pub fn pace(&self, headers: u32) -> Option<f64> {
                match self { $(Self::$kind(settings) => settings.pace(headers),)+ }
            }

            /// Whether datagrams go from the flow's first end to its second only, where they are counted, so that
            /// nobody waits for one to be read.
            pub fn is_one_way(&self) -> bool {
                match self { $(Self::$kind(settings) => settings.is_one_way(),)+ }
            }

            /// Whether all that it sends is fill, whose bytes nobody reads.
            pub fn sends_fill_only(&self) -> bool {
                match self { $(Self::$kind(settings) => settings.sends_fill_only(),)+ }
            }

            /// Whether most data goes from the flow's second end to its first, in answer to requests.
            pub fn answers(&self) -> bool {
                match self { $(Self::$kind(settings) => settings.answers(),)+ }
            }

            /// Application bytes per second that it offers from the flow's first end to its second, on average;
            /// `None` if it takes what it gets.
            pub fn offered_load(&self) -> Option<f64> {
                match self { $(Self::$kind(settings) => settings.offered_load(),)+ }
            }

            /// Refuses values that the application cannot work with.
            ///
            /// # Errors
            /// Names the key and says what is wrong.
            pub fn check(&self) -> Result<(), SettingsError> {
                match self { $(Self::$kind(settings) => settings.check(),)+ }
            }

            /// Whether its receiving end may read slower than data come ([`Reads`](crate::Reads)).
            pub fn may_read_slowly(&self) -> bool {
                match self { $(Self::$kind(settings) => settings.may_read_slowly(),)+ }
            }

            /// Streams of a connection that it uses, if there are as many.
            pub fn streams(&self) -> u16 {
                match self { $(Self::$kind(settings) => settings.streams(),)+ }
            }

            /// The size of the messages that it gives to its transport, if the file says so.
            pub fn message(&self) -> Option<Size> {
                match self { $(Self::$kind(settings) => settings.message(),)+ }
            }

            /// Whether it comes to an end by itself; otherwise it goes on until its flow stops.
            pub fn has_an_end(&self) -> bool {
                match self { $(Self::$kind(settings) => settings.has_an_end(),)+ }
            }

            /// Whether sizes are drawn from a distribution of infinite variance, so that means over objects must
            /// not be trusted.
            pub fn has_infinite_variance(&self) -> bool {
                match self { $(Self::$kind(settings) => settings.has_infinite_variance(),)+ }
            }
        }
    };
}

applications! {
    /// As much as the transport takes, up to a size or a time, over one connection.
    Bulk(Bulk);
    /// Web objects: pushed into one connection, or requested and answered.
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
    /// Files, one after the other, each over a connection of its own.
    File(File);
    /// One file by FTP.
    Ftp(Ftp);
    /// Video in segments, fetched ahead of a player over one connection.
    Segments(Segments);
    /// One direction of a telephone call, over RTP.
    Voice(Voice);
    /// Video as it happens, over RTP.
    Video(Video);
    /// Users of SIP and their server.
    Sip(Box<LoadSettings>);
}
