//! Renders templates as messages.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use netrig_core::Instant;
use netrig_host::user_file;
use netrig_sip::digest::DigestClient;
use netrig_sip::{Host, Method};

use time::{OffsetDateTime, format_description};

use super::call::ScriptCall;
use super::received::ReceivedText;
use super::run::ScriptRun;
use super::script::EVENT_TYPE;
use super::template::{CredentialsKeyword, InjectedField, ScriptKeyword, ScriptPiece, ScriptTemplate};
use crate::media::MediaCodec;

/// Longest text, bytes: the largest datagram.
const LONGEST_TEXT: usize = 65_535;

/// The text of a template in a call. `branch` returns the branch of the step's transaction; its argument is added to
/// the number of the step. `now` is the time since the start of the run. Credentials answer the challenges in `digest`.
/// `[len]` becomes the length of the body.
///
/// # Errors
/// If the value of a keyword is missing, in words.
pub fn render(
    template: &ScriptTemplate,
    (call, branch, now): (&ScriptCall, &dyn Fn(i64) -> String, Instant),
    run: &mut ScriptRun,
    digest: Option<&mut DigestClient>,
) -> Result<String, String> {
    let (text, lengths) = (String::new(), Vec::new());
    let mut renderer =
        Renderer { call, branch, now, run, digest, text, lengths, leaves_out: false, depth: 0 };
    renderer.template(template)?;
    let Renderer { mut text, lengths, .. } = renderer;
    let body = text.find("\r\n\r\n").map_or(0, |place| text.len() - place - 4);
    for (place, offset) in lengths.into_iter().rev() {
        text.insert_str(place, &(body as i64 + offset).max(0).to_string());
    }
    Ok(text)
}

struct Renderer<'a, 'b> {
    call: &'a ScriptCall,
    /// Returns the branch of the step's transaction. Its argument is added to the number of the step.
    branch: &'a dyn Fn(i64) -> String,
    /// The current time since the start of the run.
    now: Instant,
    run: &'b mut ScriptRun,
    digest: Option<&'b mut DigestClient>,
    text: String,
    /// The positions in `text` at which the length of the body is inserted, and the numbers to add to it.
    lengths: Vec<(usize, i64)>,
    /// Whether the rest of the line is left out.
    leaves_out: bool,
    depth: usize,
}

impl Renderer<'_, '_> {
    fn template(&mut self, template: &ScriptTemplate) -> Result<(), String> {
        self.depth += 1;
        if self.depth > 8 {
            return Err("templates are nested too deeply".to_owned());
        }
        for piece in &template.pieces {
            self.piece(piece)?;
            if self.text.len() > LONGEST_TEXT {
                return Err(format!("a text is longer than {LONGEST_TEXT} bytes"));
            }
        }
        self.depth -= 1;
        Ok(())
    }

    /// The text of a nested template.
    fn inner(&mut self, template: &ScriptTemplate) -> Result<String, String> {
        // The positions of `[len]` and the removed line of the message do not apply to a nested text.
        let outer = (std::mem::take(&mut self.text), std::mem::take(&mut self.lengths), self.leaves_out);
        self.leaves_out = false;
        let end = self.template(template);
        let inner = std::mem::take(&mut self.text);
        (self.text, self.lengths, self.leaves_out) = outer;
        end.map(|()| inner)
    }

    fn piece(&mut self, piece: &ScriptPiece) -> Result<(), String> {
        match piece {
            ScriptPiece::Literal(text) => {
                let kept = match (self.leaves_out, text.split_once('\n')) {
                    (false, _) => text,
                    (true, Some((_, rest))) => {
                        self.leaves_out = false;
                        rest
                    }
                    (true, None) => "",
                };
                self.text.push_str(kept);
            }
            // The rest of a line with a missing header field is left out as well.
            _ if self.leaves_out => {}
            ScriptPiece::Keyword(ScriptKeyword::Length, offset) => {
                self.lengths.push((self.text.len(), *offset))
            }
            ScriptPiece::Keyword(keyword, offset) => self.keyword(*keyword, *offset),
            ScriptPiece::Variable(variable) => {
                let text = self.call.values.get(*variable).to_text();
                self.text.push_str(&text);
            }
            ScriptPiece::Field(field) => self.field(field)?,
            ScriptPiece::LastHeader(name) => {
                let lines = self.call.last.as_ref().map(|last| last.lines_of(name)).unwrap_or_default();
                if lines.is_empty() {
                    self.leaves_out = true;
                }
                let lines = lines.join("\r\n");
                self.text.push_str(&lines);
            }
            ScriptPiece::File(name) => {
                let name = self.inner(name)?;
                let text = user_file::read_text(Path::new(&name), user_file::LONGEST_SETTINGS)
                    .map_err(|error| format!("cannot read {name}: {error}"))?;
                self.text.push_str(text.trim_end_matches('\n'));
            }
            ScriptPiece::Fill(text, variable) => {
                let times = self.call.values.get(*variable).to_number().clamp(0.0, 65_535.0) as usize;
                let filled: String = text.chars().cycle().take(times).collect();
                self.text.push_str(&filled);
            }
            ScriptPiece::Credentials(credentials) => self.credentials(credentials)?,
        }
        Ok(())
    }

    fn keyword(&mut self, keyword: ScriptKeyword, offset: i64) {
        use ScriptKeyword as K;
        let (call, settings) = (self.call, &self.run.settings);
        let counted = |number: i64| (number + offset).to_string();
        let port = |address: SocketAddr| counted(i64::from(address.port()));
        let text = match keyword {
            K::RemoteIp => Host::Address(settings.remote.ip()).to_string(),
            K::RemoteHost => settings.remote_host.clone(),
            K::RemotePort => port(settings.remote),
            K::TransportName => settings.transport.name().to_owned(),
            K::LocalIp => Host::Address(settings.local.ip()).to_string(),
            K::LocalIpType => family(settings.local.ip()).to_owned(),
            K::LocalPort => port(settings.local),
            K::ServerIp => Host::Address(call.server.ip()).to_string(),
            // Addresses in a session description have no brackets (RFC 4566 section 5.7).
            K::MediaIp => settings.media.ip().to_string(),
            K::MediaIpType => family(settings.media.ip()).to_owned(),
            K::MediaFormats => settings
                .codec
                .map_or_else(|| "0".to_owned(), |codec| format!("{} {EVENT_TYPE}", codec.payload_type())),
            K::MediaAttributes => attributes(settings.codec),
            K::MediaPort if settings.codec.is_some() => counted(i64::from(settings.media_port(call.number))),
            K::MediaPort | K::RtpStreamAudioPort | K::RtpStreamVideoPort => port(settings.media),
            // The ports of successive calls differ by four.
            K::AutoMediaPort => {
                counted(i64::from(settings.media.port()) + 4 * ((call.number as i64 - 1) % 10_000))
            }
            K::CallNumber => counted(call.number as i64),
            K::DynamicId => {
                self.run.dynamic_id += 1;
                (self.run.dynamic_id as i64 + offset).to_string()
            }
            K::CallId => call.call_id.clone(),
            K::CseqNumber => counted(i64::from(call.cseq)),
            K::Pid => counted(i64::from(settings.run_number)),
            K::Service => settings.service.clone(),
            K::BranchOfStep => (self.branch)(offset),
            K::MessageIndex => counted(call.step as i64),
            K::NextUrl => call.next_url.clone(),
            // The length is inserted when the whole text is complete.
            K::Length => String::new(),
            K::PeerTagParameter => {
                call.peer_tag.as_ref().map(|tag| format!(";tag={tag}")).unwrap_or_default()
            }
            K::LastRequestUri => call.last_request_uri.clone(),
            K::LastCseqNumber => counted(
                call.last.as_ref().and_then(ReceivedText::cseq).map_or(0, |(number, _)| i64::from(number)),
            ),
            K::LastMessage => call.last.as_ref().map(|last| last.text.clone()).unwrap_or_default(),
            K::Routes if call.routes.is_empty() => {
                self.leaves_out = self.text.ends_with('\n');
                String::new()
            }
            K::Routes => format!("Route: {}", call.routes.join(", ")),
            K::ClockTick => counted(self.now.as_nanos().div_euclid(1_000_000) as i64),
            K::Users => settings.users.to_string(),
            K::UserId => counted(call.user.map_or(0, |user| user as i64 + 1)),
            K::Timestamp => self.moment(TIMESTAMP),
            K::DateValue => self.moment(DATE),
            K::TesterVersion => settings.version.clone(),
        };
        self.text.push_str(&text);
    }

    fn moment(&self, form: &str) -> String {
        let nanos = i128::from(self.call.began_ns) + i128::from(self.now.as_nanos());
        let moment = OffsetDateTime::from_unix_timestamp_nanos(nanos).ok();
        let form = format_description::parse_borrowed::<2>(form).ok();
        moment.zip(form).and_then(|(moment, form)| moment.format(&form).ok()).unwrap_or_default()
    }

    fn field(&mut self, field: &InjectedField) -> Result<(), String> {
        let name = self.run.file_of(field)?.to_owned();
        let line = match &field.line {
            None => self.call.lines.get(&name).copied(),
            Some(line) => {
                let text = self.inner(line)?;
                // A negative number is the result of a lookup that found no line.
                let line: f64 =
                    text.trim().parse().map_err(|_| format!("expected a line of {name}, found `{text}`"))?;
                (line >= 0.0).then_some(line as usize)
            }
        };
        let Some(line) = line else { return Ok(()) };
        let value = match self.run.files.get(&name) {
            Some(file) => file.field(line, field.field).map_err(|error| format!("{name}: {error}"))?,
            None => String::new(),
        };
        // A field may contain the keyword `authentication`.
        match value
            .split_once("[authentication")
            .and_then(|(before, rest)| Some((before, rest.split_once(']')?)))
        {
            None => self.text.push_str(&value),
            Some((before, (inside, behind))) => {
                self.text.push_str(before);
                let of = |name: &str| {
                    let value = inside.split_once(name)?.1.split(' ').next()?;
                    Some(ScriptTemplate { pieces: vec![ScriptPiece::Literal(value.to_owned())] })
                };
                self.credentials(&CredentialsKeyword {
                    username: of("username="),
                    password: of("password="),
                })?;
                self.text.push_str(behind);
            }
        }
        Ok(())
    }

    fn credentials(&mut self, keyword: &CredentialsKeyword) -> Result<(), String> {
        let (username, password) = (self.run.settings.username.clone(), self.run.settings.password.clone());
        let mut of = |template: &Option<ScriptTemplate>, default: &str| match template {
            Some(template) => self.inner(template),
            None => Ok(default.to_owned()),
        };
        let (username, password) = (of(&keyword.username, &username)?, of(&keyword.password, &password)?);
        let challenges = self.call.last.as_ref().map(challenges).unwrap_or_default();
        let Some(digest) = self.digest.as_deref_mut() else {
            return Err("[authentication] is not in a request".to_owned());
        };
        if !challenges.is_empty() {
            digest.challenged(challenges, &username, &password).map_err(|error| error.to_string())?;
        }
        let mut words = self.text.split(' ');
        let (method, uri) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let method: Method = method.parse().map_err(|_| format!("`{method}` is not a method"))?;
        let cnonce = format!("{:016x}", self.run.draws.bits());
        let account = u32::try_from(self.call.user.unwrap_or(0)).unwrap_or(0);
        let answers = digest.answers(&method, uri, b"", &cnonce, (account, &mut self.run.nonces));
        let lines: Vec<String> =
            answers.map(|(name, answer)| format!("{name}: {}", answer.write())).collect();
        if lines.is_empty() {
            return Err("[authentication] without a received challenge: expected auth=\"true\" in a <recv>"
                .to_owned());
        }
        self.text.push_str(&lines.join("\r\n"));
        Ok(())
    }
}

/// Session description lines for a codec and telephone events.
fn attributes(codec: Option<MediaCodec>) -> String {
    let codec = codec.unwrap_or(MediaCodec::Pcmu);
    let mut lines = format!("a=rtpmap:{} {}", codec.payload_type(), codec.rtpmap());
    if codec == MediaCodec::G729 {
        lines.push_str("\r\na=fmtp:18 annexb=no");
    }
    let rate = codec.clock_rate();
    lines + &format!("\r\na=rtpmap:{EVENT_TYPE} telephone-event/{rate}\r\na=fmtp:{EVENT_TYPE} 0-15")
}

/// The challenges of a response.
fn challenges(message: &ReceivedText) -> Vec<(netrig_sip::Name, netrig_sip::digest::DigestChallenge)> {
    use netrig_sip::Name;
    use netrig_sip::digest::DigestChallenge;
    let of = |name: Name| {
        let lines = message.lines_of(&name.to_string());
        let values: Vec<String> =
            lines.iter().filter_map(|line| Some(line.split_once(':')?.1.trim().to_owned())).collect();
        values.into_iter().filter_map(move |value| Some((name.clone(), DigestChallenge::of_value(&value)?)))
    };
    of(Name::WwwAuthenticate).chain(of(Name::ProxyAuthenticate)).collect()
}

const fn family(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "4" } else { "6" }
}

/// The format of `[timestamp]`.
const TIMESTAMP: &str = "[year]-[month]-[day] [hour]:[minute]:[second].[subsecond digits:6]";

/// The format of a Date (RFC 3261 section 20.17).
const DATE: &str = "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT";
