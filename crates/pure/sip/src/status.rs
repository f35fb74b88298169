//! Status codes of responses.

use std::fmt;

/// A status code, 100 to 699 (RFC 3261 section 7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(u16);

/// The first digit of a status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// 1xx, not final.
    Provisional,
    /// 2xx.
    Success,
    /// 3xx.
    Redirection,
    /// 4xx: this server refuses this request.
    RequestFailure,
    /// 5xx.
    ServerFailure,
    /// 6xx: no server can fulfil the request.
    GlobalFailure,
}

impl Status {
    /// The status of a code; `None` outside 100 to 699.
    pub const fn new(code: u16) -> Option<Self> {
        if code >= 100 && code <= 699 { Some(Self(code)) } else { None }
    }

    /// The number.
    pub const fn code(self) -> u16 {
        self.0
    }

    /// The class of the code.
    pub const fn class(self) -> Class {
        match self.0 / 100 {
            1 => Class::Provisional,
            2 => Class::Success,
            3 => Class::Redirection,
            4 => Class::RequestFailure,
            5 => Class::ServerFailure,
            _ => Class::GlobalFailure,
        }
    }

    /// Whether the response is final: 200 or above.
    pub const fn is_final(self) -> bool {
        self.0 >= 200
    }

    /// Whether the class is 2xx.
    pub const fn is_success(self) -> bool {
        matches!(self.class(), Class::Success)
    }
}

macro_rules! statuses {
    ($($code:literal $name:ident $reason:literal)*) => {
        /// The codes of the IANA registry of SIP response codes.
        impl Status {
            $(#[doc = concat!("`", $reason, "`.")] pub const $name: Self = Self($code);)*

            /// The reason phrase of the registry; empty for an unregistered code.
            pub const fn reason(self) -> &'static str {
                match self.0 {
                    $($code => $reason,)*
                    _ => "",
                }
            }
        }
    };
}

statuses! {
    100 TRYING "Trying"
    180 RINGING "Ringing"
    181 CALL_IS_BEING_FORWARDED "Call Is Being Forwarded"
    182 QUEUED "Queued"
    183 SESSION_PROGRESS "Session Progress"
    199 EARLY_DIALOG_TERMINATED "Early Dialog Terminated"
    200 OK "OK"
    202 ACCEPTED "Accepted"
    204 NO_NOTIFICATION "No Notification"
    300 MULTIPLE_CHOICES "Multiple Choices"
    301 MOVED_PERMANENTLY "Moved Permanently"
    302 MOVED_TEMPORARILY "Moved Temporarily"
    305 USE_PROXY "Use Proxy"
    380 ALTERNATIVE_SERVICE "Alternative Service"
    400 BAD_REQUEST "Bad Request"
    401 UNAUTHORIZED "Unauthorized"
    402 PAYMENT_REQUIRED "Payment Required"
    403 FORBIDDEN "Forbidden"
    404 NOT_FOUND "Not Found"
    405 METHOD_NOT_ALLOWED "Method Not Allowed"
    406 NOT_ACCEPTABLE "Not Acceptable"
    407 PROXY_AUTHENTICATION_REQUIRED "Proxy Authentication Required"
    408 REQUEST_TIMEOUT "Request Timeout"
    410 GONE "Gone"
    412 CONDITIONAL_REQUEST_FAILED "Conditional Request Failed"
    413 REQUEST_ENTITY_TOO_LARGE "Request Entity Too Large"
    414 REQUEST_URI_TOO_LONG "Request-URI Too Long"
    415 UNSUPPORTED_MEDIA_TYPE "Unsupported Media Type"
    416 UNSUPPORTED_URI_SCHEME "Unsupported URI Scheme"
    420 BAD_EXTENSION "Bad Extension"
    421 EXTENSION_REQUIRED "Extension Required"
    422 SESSION_INTERVAL_TOO_SMALL "Session Interval Too Small"
    423 INTERVAL_TOO_BRIEF "Interval Too Brief"
    433 ANONYMITY_DISALLOWED "Anonymity Disallowed"
    439 FIRST_HOP_LACKS_OUTBOUND_SUPPORT "First Hop Lacks Outbound Support"
    440 MAX_BREADTH_EXCEEDED "Max-Breadth Exceeded"
    480 TEMPORARILY_UNAVAILABLE "Temporarily Unavailable"
    481 CALL_DOES_NOT_EXIST "Call/Transaction Does Not Exist"
    482 LOOP_DETECTED "Loop Detected"
    483 TOO_MANY_HOPS "Too Many Hops"
    484 ADDRESS_INCOMPLETE "Address Incomplete"
    485 AMBIGUOUS "Ambiguous"
    486 BUSY_HERE "Busy Here"
    487 REQUEST_TERMINATED "Request Terminated"
    488 NOT_ACCEPTABLE_HERE "Not Acceptable Here"
    489 BAD_EVENT "Bad Event"
    491 REQUEST_PENDING "Request Pending"
    493 UNDECIPHERABLE "Undecipherable"
    494 SECURITY_AGREEMENT_REQUIRED "Security Agreement Required"
    500 SERVER_INTERNAL_ERROR "Server Internal Error"
    501 NOT_IMPLEMENTED "Not Implemented"
    502 BAD_GATEWAY "Bad Gateway"
    503 SERVICE_UNAVAILABLE "Service Unavailable"
    504 SERVER_TIMEOUT "Server Time-out"
    505 VERSION_NOT_SUPPORTED "Version Not Supported"
    513 MESSAGE_TOO_LARGE "Message Too Large"
    580 PRECONDITION_FAILURE "Precondition Failure"
    600 BUSY_EVERYWHERE "Busy Everywhere"
    603 DECLINE "Decline"
    604 DOES_NOT_EXIST_ANYWHERE "Does Not Exist Anywhere"
    606 NOT_ACCEPTABLE_ANYWHERE "Not Acceptable"
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
