//! Messages with keywords, such as SIPp's `[call_id]`.

use netrig_core::choices;

use super::variables::{VariableId, VariableTable};

/// A text with keywords.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScriptTemplate {
    /// The pieces in order.
    pub pieces: Vec<ScriptPiece>,
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
pub enum ScriptPiece {
    /// Literal text.
    Literal(String),
    /// The value of a keyword, plus this number if it is numeric.
    Keyword(ScriptKeyword, i64),
    /// The value of a variable.
    Variable(VariableId),
    /// A field of an injection file.
    Field(InjectedField),
    /// A header field of the last received message. If the message does not have it, the line is left out.
    LastHeader(String),
    /// The contents of a file.
    File(Box<ScriptTemplate>),
    /// A text, repeated by the number in a variable.
    Fill(String, VariableId),
    /// Credentials for the last challenge.
    Credentials(Box<CredentialsKeyword>),
}

/// A field of an injection file.
#[derive(Clone, Debug, PartialEq)]
pub struct InjectedField {
    /// The file; `None` for the first of `-inf`.
    pub file: Option<String>,
    /// Index of the field, from 0.
    pub field: usize,
    /// The line that the scenario sets; `None` for the line of the call.
    pub line: Option<Box<ScriptTemplate>>,
}

/// The parameters of the keyword `authentication`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CredentialsKeyword {
    /// `username=`.
    pub username: Option<ScriptTemplate>,
    /// `password=`.
    pub password: Option<ScriptTemplate>,
}

choices! {
    /// A keyword without parameters.
    pub enum ScriptKeyword {
        /// Address of the server.
        RemoteIp = "remote_ip",
        /// The server as typed.
        RemoteHost = "remote_host",
        /// Port of the server.
        RemotePort = "remote_port",
        /// `UDP`, `TCP` or `TLS`.
        TransportName = "transport",
        /// Address of the tester.
        LocalIp = "local_ip",
        /// `4` or `6`.
        LocalIpType = "local_ip_type",
        /// Port of the tester.
        LocalPort = "local_port",
        /// The address at which the last message arrived.
        ServerIp = "server_ip",
        /// Address for media.
        MediaIp = "media_ip",
        /// `4` or `6`.
        MediaIpType = "media_ip_type",
        /// Port for media.
        MediaPort = "media_port",
        /// Port for media of this call.
        AutoMediaPort = "auto_media_port",
        /// Payload types of the load's codec and of telephone events, as in a media line.
        MediaFormats = "media_formats",
        /// The attributes of these payload types.
        MediaAttributes = "media_attributes",
        /// Port of a media stream.
        RtpStreamAudioPort = "rtpstream_audio_port",
        /// Port of a video stream.
        RtpStreamVideoPort = "rtpstream_video_port",
        /// Number of the call, from 1.
        CallNumber = "call_number",
        /// A number that is incremented.
        DynamicId = "dynamic_id",
        /// Call-ID of the call.
        CallId = "call_id",
        /// Number of the next request.
        CseqNumber = "cseq",
        /// A number that identifies this run.
        Pid = "pid",
        /// User part of the callee.
        Service = "service",
        /// Branch of the message's transaction.
        BranchOfStep = "branch",
        /// Number of the step.
        MessageIndex = "msg_index",
        /// Contact of the last response or request.
        NextUrl = "next_url",
        /// Length of the body.
        Length = "len",
        /// `;tag=…` of the other side, once it is known.
        PeerTagParameter = "peer_tag_param",
        /// Request-URI of the last request.
        LastRequestUri = "last_Request_URI",
        /// Number of CSeq of the last message.
        LastCseqNumber = "last_cseq_number",
        /// The whole last message.
        LastMessage = "last_message",
        /// The route set.
        Routes = "routes",
        /// Milliseconds since the run began.
        ClockTick = "clock_tick",
        /// Number of users.
        Users = "users",
        /// Number of the user.
        UserId = "userid",
        /// Date and time of day.
        Timestamp = "timestamp",
        /// Date and time of day as in the Date header field.
        DateValue = "date",
        /// Version of the tester.
        TesterVersion = "sipp_version",
    }
}

/// Why a keyword cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScriptTemplateError {
    /// A bracket is not closed.
    #[error("[{0} does not end: expected ]; write \\x5B for a [ that starts no keyword")]
    Open(String),
    /// There is no such keyword.
    #[error("there is no keyword [{0}]; --key {0} VALUE defines one")]
    Unknown(String),
    /// The keyword is known but not supported.
    #[error("the keyword [{0}] is not supported")]
    Unsupported(String),
    /// A field has no number.
    #[error("expected a number in [{0}], such as [field0]")]
    FieldNumber(String),
    /// `file` has no name.
    #[error("expected name= in [{0}]")]
    FileName(String),
}

/// Keywords that the user defines.
#[derive(Clone, Copy, Debug)]
pub struct ScriptWords<'a> {
    /// Additional keywords of the user, from `--key`.
    pub keys: &'a [(String, String)],
}

impl ScriptTemplate {
    /// Reads a text with keywords. `\xHH` is the character with that code. Variables are added to the table.
    ///
    /// # Errors
    /// If a keyword is unknown or malformed.
    pub fn parse(
        text: &str,
        words: ScriptWords<'_>,
        variables: &mut VariableTable,
    ) -> Result<Self, ScriptTemplateError> {
        let mut template = Self::default();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(place) = rest.find(['[', '\\']) {
            literal.push_str(&rest[..place]);
            rest = &rest[place..];
            if let Some((letter, length)) = hexadecimal(rest) {
                literal.push(letter);
                rest = &rest[length..];
                continue;
            }
            if rest.starts_with('\\') {
                literal.push('\\');
                rest = &rest[1..];
                continue;
            }
            let inside = &rest[1..];
            // A bracket that is followed by another before it is closed is literal.
            let (end, another) = (unquoted(inside, ']'), unquoted(inside, '['));
            match (end, another) {
                (Some(end), Some(another)) if another < end => {
                    literal.push_str(&rest[..=another]);
                    rest = &rest[another + 1..];
                }
                (Some(end), _) => {
                    let piece = piece(&inside[..end], words, variables)?;
                    template.push_literal(&mut literal);
                    template.pieces.push(piece);
                    rest = &inside[end + 1..];
                }
                (None, _) => {
                    let line = inside.lines().next().unwrap_or_default();
                    return Err(ScriptTemplateError::Open(line.chars().take(40).collect()));
                }
            }
        }
        literal.push_str(rest);
        template.push_literal(&mut literal);
        Ok(template)
    }

    fn push_literal(&mut self, literal: &mut String) {
        if !literal.is_empty() {
            self.pieces.push(ScriptPiece::Literal(std::mem::take(literal)));
        }
    }

    /// The text of the template. `name_of` returns the names of variables. Parsing the text gives the same template.
    pub fn to_text(&self, name_of: &dyn Fn(VariableId) -> String) -> String {
        let inner = |template: &Self| template.to_text(name_of);
        let of = |piece: &ScriptPiece| match piece {
            // Brackets and backslashes of literals are escaped.
            ScriptPiece::Literal(text) => text.replace('\\', "\\x5C").replace('[', "\\x5B"),
            ScriptPiece::Keyword(keyword, offset) => match offset {
                0 => format!("[{keyword}]"),
                offset => format!("[{keyword}{offset:+}]"),
            },
            ScriptPiece::Variable(variable) => format!("[${}]", name_of(*variable)),
            ScriptPiece::Field(InjectedField { file, field, line }) => {
                let file = file.as_ref().map(|file| format!(" file=\"{file}\"")).unwrap_or_default();
                let line = line.as_ref().map(|line| format!(" line=\"{}\"", inner(line))).unwrap_or_default();
                format!("[field{field}{file}{line}]")
            }
            ScriptPiece::LastHeader(name) => format!("[last_{name}]"),
            ScriptPiece::File(name) => format!("[file name=\"{}\"]", inner(name)),
            ScriptPiece::Fill(text, variable) => {
                format!("[fill text=\"{text}\" variable=\"{}\"]", name_of(*variable))
            }
            ScriptPiece::Credentials(credentials) => {
                let of = |name: &str, value: &Option<Self>| {
                    value.as_ref().map(|value| format!(" {name}={}", inner(value))).unwrap_or_default()
                };
                let CredentialsKeyword { username, password } = &**credentials;
                format!("[authentication{}{}]", of("username", username), of("password", password))
            }
        };
        self.pieces.iter().map(of).collect()
    }

    /// The fields of injection files in the template.
    pub fn fields(&self) -> impl Iterator<Item = &InjectedField> {
        self.pieces.iter().filter_map(|piece| match piece {
            ScriptPiece::Field(field) => Some(field),
            _ => None,
        })
    }

    /// The text before the first keyword.
    pub fn beginning(&self) -> &str {
        match self.pieces.first() {
            Some(ScriptPiece::Literal(text)) => text,
            _ => "",
        }
    }
}

/// The character of `\xHH`, and the length of the escape.
fn hexadecimal(text: &str) -> Option<(char, usize)> {
    let digits = text.strip_prefix("\\x")?;
    let count = digits.chars().take(2).take_while(char::is_ascii_hexdigit).count();
    let code = u8::from_str_radix(digits.get(..count)?, 16).ok()?;
    Some((char::from(code), 2 + count))
}

/// The position of the first `wanted` character outside quotation marks.
fn unquoted(text: &str, wanted: char) -> Option<usize> {
    let mut is_quoted = false;
    text.char_indices().find_map(|(place, letter)| {
        is_quoted ^= letter == '"';
        (letter == wanted && !is_quoted).then_some(place)
    })
}

fn piece(
    keyword: &str,
    words: ScriptWords<'_>,
    variables: &mut VariableTable,
) -> Result<ScriptPiece, ScriptTemplateError> {
    if let Some(rest) = keyword.strip_prefix("authentication") {
        let mut of = |name: &str| {
            parameter(rest, name).map(|text| ScriptTemplate::parse(&text, words, variables)).transpose()
        };
        let credentials = CredentialsKeyword { username: of("username=")?, password: of("password=")? };
        return Ok(ScriptPiece::Credentials(Box::new(credentials)));
    }
    let (name, offset) = with_offset(keyword);
    let first_word = name.split(' ').next().unwrap_or_default();
    if let Some((_, value)) = words.keys.iter().find(|(key, _)| key == first_word) {
        return Ok(ScriptPiece::Literal(value.clone()));
    }
    if let Some(known) = ScriptKeyword::ALL.iter().find(|known| known.name() == name) {
        return Ok(ScriptPiece::Keyword(*known, offset));
    }
    if name.starts_with("crypto") || name.starts_with("ueaes") || name == "tdmmap" {
        return Err(ScriptTemplateError::Unsupported(name.to_owned()));
    }
    if let Some(rest) = name.strip_prefix("field") {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let field = digits.parse().map_err(|_| ScriptTemplateError::FieldNumber(keyword.to_owned()))?;
        let line = parameter(rest, "line=")
            .map(|text| ScriptTemplate::parse(&text, words, variables))
            .transpose()?;
        let file = parameter(rest, "file=");
        return Ok(ScriptPiece::Field(InjectedField { file, field, line: line.map(Box::new) }));
    }
    if let Some(rest) = name.strip_prefix("file") {
        let file =
            parameter(rest, "name=").ok_or_else(|| ScriptTemplateError::FileName(keyword.to_owned()))?;
        return Ok(ScriptPiece::File(Box::new(ScriptTemplate::parse(&file, words, variables)?)));
    }
    if let Some(variable) = name.strip_prefix('$') {
        return Ok(ScriptPiece::Variable(variables.used(variable)));
    }
    if let Some(rest) = name.strip_prefix("fill") {
        let text = parameter(rest, "text=").unwrap_or_else(|| "X".to_owned());
        let variable = parameter(rest, "variable=").unwrap_or_default();
        return Ok(ScriptPiece::Fill(text, variables.used(&variable)));
    }
    if let Some(header) = name.strip_prefix("last_") {
        return Ok(ScriptPiece::LastHeader(header.to_owned()));
    }
    Err(ScriptTemplateError::Unknown(keyword.to_owned()))
}

/// Splits `cseq+1` into the keyword and the signed number after it, or 0.
fn with_offset(keyword: &str) -> (&str, i64) {
    let Some(place) = keyword.find(['+', '-']) else { return (keyword, 0) };
    let digits = &keyword[place + 1..];
    let count = digits.chars().take_while(char::is_ascii_digit).count();
    let number = keyword[place..=place + count].parse();
    number.map_or((keyword, 0), |offset| (&keyword[..place], offset))
}

/// The value after a word such as `file=`, in quotation marks or up to the next space.
fn parameter(text: &str, name: &str) -> Option<String> {
    let is_word = |place: &usize| {
        let before = &text[..*place];
        before.matches('"').count().is_multiple_of(2) && (before.is_empty() || before.ends_with([' ', '\t']))
    };
    let place = text.match_indices(name).map(|(place, _)| place).find(is_word)?;
    let value = &text[place + name.len()..];
    let value = match value.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next().unwrap_or_default(),
        None => value.split(' ').next().unwrap_or_default(),
    };
    (!value.is_empty()).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<ScriptPiece>, ScriptTemplateError> {
        let keys = [("tenant".to_owned(), "acme".to_owned())];
        let words = ScriptWords { keys: &keys };
        ScriptTemplate::parse(text, words, &mut VariableTable::default()).map(|template| template.pieces)
    }

    #[test]
    fn keywords_are_read_with_their_parameters() {
        let literal = |text: &str| ScriptPiece::Literal(text.to_owned());
        assert_eq!(
            parse("CSeq: [cseq+1] A\r\n[tenant]\\x5Bx]").unwrap(),
            [
                literal("CSeq: "),
                ScriptPiece::Keyword(ScriptKeyword::CseqNumber, 1),
                literal(" A\r\n"),
                literal("acme"),
                literal("[x]")
            ]
        );
        assert_eq!(parse("[last_Via:]").unwrap(), [ScriptPiece::LastHeader("Via:".to_owned())]);
        let pieces = parse("[field2 file=\"users.csv\" line=\"[$line]\"]").unwrap();
        let [ScriptPiece::Field(field)] = &*pieces else { panic!("{pieces:?}") };
        assert_eq!((field.field, field.file.as_deref()), (2, Some("users.csv")));
        let pieces = parse("[authentication username=joe password=secret]").unwrap();
        let [ScriptPiece::Credentials(credentials)] = &*pieces else { panic!("{pieces:?}") };
        assert_eq!(credentials.username.as_ref().unwrap().beginning(), "joe");
        assert_eq!(credentials.password.as_ref().unwrap().beginning(), "secret");
    }

    #[test]
    fn what_is_no_keyword_is_named() {
        assert_eq!(parse("[nonsense]"), Err(ScriptTemplateError::Unknown("nonsense".to_owned())));
        assert_eq!(parse("a [call_id"), Err(ScriptTemplateError::Open("call_id".to_owned())));
        assert_eq!(parse("[fieldx]"), Err(ScriptTemplateError::FieldNumber("fieldx".to_owned())));
        assert_eq!(parse("[tdmmap]"), Err(ScriptTemplateError::Unsupported("tdmmap".to_owned())));
        // A bracket inside another is literal.
        assert_eq!(parse("[a [pid]").unwrap().len(), 2);
    }
}
