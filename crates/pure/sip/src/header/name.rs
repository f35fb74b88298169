//! Names of header fields.

use std::fmt;

macro_rules! names {
    ($($name:ident $text:literal $compact:literal)*) => {
        /// The name of a header field. Each name that the SIP stack interprets has a variant. All other names are kept
        /// unchanged.
        #[derive(Clone, Debug)]
        pub enum Name {
            $(#[doc = concat!("`", $text, "`")] $name,)*
            /// Any other name.
            Other(Box<str>),
        }

        impl Name {
            /// The name of a header field that the SIP stack interprets. `None` for any other name.
            pub(crate) fn known(text: &str) -> Option<Self> {
                $(if text.eq_ignore_ascii_case($text) || !$compact.is_empty() && text.eq_ignore_ascii_case($compact) {
                    return Some(Self::$name);
                })*
                None
            }

            /// The name for a text: the full name, or the compact form (RFC 3261 section 7.3.3).
            pub fn new(text: &str) -> Self {
                Self::known(text).unwrap_or_else(|| Self::Other(text.into()))
            }

            /// The full name.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$name => $text,)*
                    Self::Other(text) => text,
                }
            }
        }
    };
}

names! {
    Accept "Accept" ""
    AcceptContact "Accept-Contact" "a"
    Allow "Allow" ""
    AllowEvents "Allow-Events" "u"
    AuthenticationInfo "Authentication-Info" ""
    Authorization "Authorization" ""
    CallId "Call-ID" "i"
    Contact "Contact" "m"
    ContentEncoding "Content-Encoding" "e"
    ContentLength "Content-Length" "l"
    ContentType "Content-Type" "c"
    CSeq "CSeq" ""
    Date "Date" ""
    Event "Event" "o"
    Expires "Expires" ""
    From "From" "f"
    MaxForwards "Max-Forwards" ""
    MinExpires "Min-Expires" ""
    MinSe "Min-SE" ""
    Path "Path" ""
    ProxyAuthenticate "Proxy-Authenticate" ""
    ProxyAuthorization "Proxy-Authorization" ""
    ProxyRequire "Proxy-Require" ""
    RAck "RAck" ""
    RecordRoute "Record-Route" ""
    ReferTo "Refer-To" "r"
    Require "Require" ""
    RetryAfter "Retry-After" ""
    Route "Route" ""
    RSeq "RSeq" ""
    ServiceRoute "Service-Route" ""
    SessionExpires "Session-Expires" "x"
    Subject "Subject" "s"
    SubscriptionState "Subscription-State" ""
    Supported "Supported" "k"
    Timestamp "Timestamp" ""
    To "To" "t"
    Unsupported "Unsupported" ""
    UserAgent "User-Agent" ""
    Via "Via" "v"
    Warning "Warning" ""
    WwwAuthenticate "WWW-Authenticate" ""
}

impl Name {
    /// Whether a message may have only one such field (RFC 3261 section 20 and table 2, and the RFCs of extensions).
    pub const fn is_single(&self) -> bool {
        matches!(
            self,
            Self::CallId
                | Self::ContentLength
                | Self::ContentType
                | Self::CSeq
                | Self::Date
                | Self::Event
                | Self::Expires
                | Self::From
                | Self::MaxForwards
                | Self::MinExpires
                | Self::MinSe
                | Self::RAck
                | Self::RSeq
                | Self::ReferTo
                | Self::RetryAfter
                | Self::SessionExpires
                | Self::Subject
                | Self::SubscriptionState
                | Self::Timestamp
                | Self::To
                | Self::UserAgent
        )
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Other(own), Self::Other(other)) => own.eq_ignore_ascii_case(other),
            // `Name::new` never makes `Other` of a known name.
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl Eq for Name {}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_and_the_compact_form_make_no_difference() {
        for text in ["Via", "via", "VIA", "v", "V"] {
            assert_eq!(Name::new(text), Name::Via, "{text}");
        }
        assert_eq!(Name::new("X-Mine"), Name::new("x-mine"));
        assert_ne!(Name::new("X-Mine"), Name::Via);
        assert_eq!(Name::new(""), Name::Other("".into()));
    }
}
